# shellcheck shell=bash
rabbitmq_packages() { :; }
rabbitmq_address() { echo; }
rabbitmq_variable() { echo X; }
