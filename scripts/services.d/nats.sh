# shellcheck shell=bash
# NATS with JetStream, with what it acknowledges on the disk.

nats_version=v2.15.3
nats_bin=$programs/nats-server-$nats_version

nats_port() { echo $((port_base + 20)); }
nats_variable() { echo OUTBOX_TEST_NATS; }
nats_address() { echo "nats://127.0.0.1:$(nats_port)"; }

nats_packages() { command -v go >/dev/null || echo golang-go; }

nats_install() {
  [[ ! -x $nats_bin/nats-server ]] || return 0
  echo "Building nats-server $nats_version."
  GOBIN=$nats_bin GOFLAGS='' quietly go install "github.com/nats-io/nats-server/v2@$nats_version"
}

nats_prepare() {
  cat >"$state/nats/nats.conf" <<EOF
listen: "127.0.0.1:$(nats_port)"
http: "127.0.0.1:$(($(nats_port) + 1))"
server_name: outbox
jetstream { store_dir: "$state/nats/data", sync_interval: always }
logtime: true
EOF
}

nats_command() { command=("$nats_bin/nats-server" --config nats.conf); }

# "HTTP/1.1 200": its own health check, which looks at JetStream too.
nats_ready() { [[ $(ask "$(($(nats_port) + 1))" 'GET /healthz HTTP/1.0\r\n\r\n' 12) == *20323030 ]]; }
