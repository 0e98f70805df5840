# shellcheck shell=bash
postgres_packages() { :; }
postgres_address() { echo; }
postgres_variable() { echo X; }
