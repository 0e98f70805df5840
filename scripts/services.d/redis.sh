# shellcheck shell=bash
# Redis, with what it acknowledges on the disk.

redis_port() { echo $((port_base + 30)); }
redis_variable() { echo OUTBOX_TEST_REDIS; }
redis_address() { echo "redis://127.0.0.1:$(redis_port)"; }

redis_packages() { command -v redis-server >/dev/null || echo redis-server; }

redis_prepare() { :; }

redis_command() {
  command=(redis-server --port "$(redis_port)" --bind 127.0.0.1 --dir "$state/redis" --appendonly yes --appendfsync always
    --save '' --loglevel warning)
}

# "PONG", which it does not answer while it loads its data.
redis_ready() { [[ $(ask "$(redis_port)" 'PING\r\n' 5) == 2b504f4e47 ]]; }
