# shellcheck shell=bash
# Apache Kafka, a single KRaft node, from Maven.

kafka_pom=$here/kafka/pom.xml
kafka_jars=$programs/kafka-$(sha256sum "$kafka_pom" | cut -c 1-12)
# Half of what a broker does at start is compiled for a life that it won't have here.
kafka_java=(java -Xms256m -Xmx512m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile=log4j2.properties
  -cp "$kafka_jars/*")

kafka_port() { echo "$port_base"; } # and the next one, for the controller
kafka_variable() { echo OUTBOX_TEST_KAFKA; }
kafka_address() { echo "127.0.0.1:$(kafka_port)"; }

kafka_packages() {
  [[ -d $kafka_jars ]] || command -v mvn >/dev/null || echo maven
  command -v java >/dev/null || echo openjdk-17-jre-headless
}

kafka_install() {
  [[ ! -d $kafka_jars ]] || return 0
  echo "Fetching Kafka with Maven."
  rm -rf "$kafka_jars.part"
  quietly mvn -q -B -f "$kafka_pom" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$kafka_jars.part" && mv "$kafka_jars.part" "$kafka_jars"
}

kafka_prepare() {
  local folder=$state/kafka port
  port=$(kafka_port)
  cp "$here/kafka/log4j2.properties" "$folder"
  cat >"$folder/server.properties" <<EOF
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:$((port + 1))
log.dirs=$folder/data
num.partitions=4
auto.create.topics.enable=true
message.max.bytes=1048588
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# A broker that was killed is taken back only when its last session has ended.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
EOF
  [[ ! -e $folder/data/meta.properties ]] || return 0
  "${as_nobody[@]}" env -C "$folder" "${kafka_java[@]}" kafka.tools.StorageTool format \
    --cluster-id b3V0Ym94LXRlc3RzLWthZg --config server.properties
}

kafka_command() { command=("${kafka_java[@]}" kafka.Kafka server.properties); }

# A metadata request, version 1, for no topics. The answer counts the brokers that are in service: one.
kafka_ready() {
  [[ $(ask "$(kafka_port)" '\0\0\0\x0e\0\x03\0\x01\0\0\0\x01\0\0\0\0\0\0' 12) == ????????00000001"00000001" ]]
}
