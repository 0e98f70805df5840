# shellcheck shell=bash
# RabbitMQ, from apt, with no plugins.

rabbitmq_port() { echo $((port_base + 10)); } # and the next two, for Erlang's distribution and its port mapper
rabbitmq_variable() { echo OUTBOX_TEST_AMQP; }
rabbitmq_address() { echo "amqp://guest:guest@127.0.0.1:$(rabbitmq_port)/"; }

rabbitmq_packages() { [[ -n $(rabbitmq_lib) ]] || echo rabbitmq-server; }

# rabbitmq_lib finds the package's own folder: the commands on the PATH insist on root, or on its user.
rabbitmq_lib() { compgen -G '/usr/lib/rabbitmq/lib/rabbitmq_server-*' | sort -V | tail -n 1; }

rabbitmq_prepare() {
  local folder=$state/rabbitmq
  echo '[].' >"$folder/enabled_plugins"
  echo 'loopback_users = none' >"$folder/rabbitmq.conf"
}

# Left to itself, RabbitMQ starts a port mapper that detaches and stays behind. This one is its child, and ends with it.
rabbitmq_command() {
  local folder=$state/rabbitmq port
  port=$(rabbitmq_port)
  command=(HOME="$folder" RABBITMQ_NODENAME="outbox$port@localhost" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1
    RABBITMQ_NODE_PORT="$port" RABBITMQ_DIST_PORT="$((port + 1))" ERL_EPMD_PORT="$((port + 2))" ERL_EPMD_ADDRESS=127.0.0.1
    RABBITMQ_MNESIA_BASE="$folder/mnesia" RABBITMQ_LOG_BASE="$folder/log.d" RABBITMQ_LOGS=-
    RABBITMQ_ENABLED_PLUGINS_FILE="$folder/enabled_plugins" RABBITMQ_CONF_ENV_FILE="$folder/none"
    RABBITMQ_CONFIG_FILE="$folder/rabbitmq" RABBITMQ_PID_FILE="$folder/pid" RABBITMQ_GENERATED_CONFIG_DIR="$folder/gen"
    bash -c 'epmd & exec "$0"' "$(rabbitmq_lib)/sbin/rabbitmq-server")
}

# The AMQP 0-9-1 header; the answer is a frame of method 10.10, connection.start.
rabbitmq_ready() { [[ $(ask "$(rabbitmq_port)" 'AMQP\0\0\x09\x01' 11) == 010000????????000a000a ]]; }
