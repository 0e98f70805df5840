# shellcheck shell=bash
redis_packages() { :; }
redis_address() { echo; }
redis_variable() { echo X; }
