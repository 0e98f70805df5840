# shellcheck shell=bash
# PgBouncer in front of postgres, pooling transactions: what it gives a client is another connection each time.

pgbouncer_port() { echo $((port_base + 50)); }
pgbouncer_variable() { echo OUTBOX_TEST_PGBOUNCER; }
pgbouncer_address() { echo "postgres://postgres@127.0.0.1:$(pgbouncer_port)/postgres?sslmode=disable"; }

pgbouncer_packages() { command -v pgbouncer >/dev/null || echo pgbouncer; }

# A start-up parameter that it doesn't know is refused: ignore_startup_parameters is empty. Any database's name will do.
pgbouncer_prepare() {
  local folder=$state/pgbouncer
  echo '"postgres" ""' >"$folder/users.txt"
  cat >"$folder/pgbouncer.ini" <<EOF
[databases]
* = host=127.0.0.1 port=$(postgres_port)
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $(pgbouncer_port)
unix_socket_dir =
auth_type = trust
auth_file = $folder/users.txt
pool_mode = transaction
default_pool_size = 5
max_client_conn = 500
ignore_startup_parameters =
server_round_robin = 1
server_login_retry = 1
EOF
}

pgbouncer_command() { command=("$(command -v pgbouncer)" pgbouncer.ini); }

# Like postgres_ready, but "Z", ready for a query, must follow: it authenticates before it has reached the server.
pgbouncer_ready() {
  [[ $(ask "$(pgbouncer_port)" '\0\0\0\x17\0\x03\0\0user\0postgres\0\0' 9) == 5200000008* ]] && postgres_ready
}
