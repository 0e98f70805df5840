# shellcheck shell=bash
nats_packages() { :; }
nats_address() { echo; }
nats_variable() { echo X; }
