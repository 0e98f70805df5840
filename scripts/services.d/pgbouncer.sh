# shellcheck shell=bash
pgbouncer_packages() { :; }
pgbouncer_address() { echo; }
pgbouncer_variable() { echo X; }
