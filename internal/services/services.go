// Package services gives tests the brokers and databases that they need: the real ones that scripts/services runs, whose
// addresses are in the environment, or else stand-ins inside the test's own process. With OUTBOX_TEST_REQUIRE=1, as in CI,
// a test whose real service is missing fails. For tests only.
//
// The real services are shared by all tests of all packages, which run at the same time: use names of your own for topics
// and queues (testdb.Random gives some), and Control for a service that is to be stopped or killed.
package services

import (
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// variables are the names of the services for scripts/services, and of the environment variables with their addresses.
var variables = map[string]string{
	"kafka":     "OUTBOX_TEST_KAFKA",
	"rabbitmq":  "OUTBOX_TEST_AMQP",
	"nats":      "OUTBOX_TEST_NATS",
	"redis":     "OUTBOX_TEST_REDIS",
	"postgres":  "OUTBOX_TEST_POSTGRES",
	"pgbouncer": "OUTBOX_TEST_PGBOUNCER",
}

// partitions is the number that a topic gets which is made by its first use, in both kinds of Kafka.
const partitions = 4

// address gives a service's address from the environment, or "" if the test may do without.
func address(t testing.TB, name string) string {
	t.Helper()
	variable := variables[name]
	if variable == "" {
		t.Fatalf("services: there is no service %q", name)
	}
	address := os.Getenv(variable)
	if address == "" && os.Getenv("OUTBOX_TEST_REQUIRE") == "1" {
		t.Fatalf("services: $%s is empty, but OUTBOX_TEST_REQUIRE=1 demands the real %s; see scripts/services --help", variable, name)
	}
	return address
}

// Kafka gives the host:port of a Kafka with one broker that makes unknown topics, with four partitions: a real one, or
// franz-go's kfake until the test ends.
func Kafka(t testing.TB) (addr string, isReal bool) {
	t.Helper()
	if addr = address(t, "kafka"); addr != "" {
		return addr, true
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(partitions))
	if err != nil {
		t.Fatal("services: kafka:", err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0], false
}

// NATS gives the nats:// URL of a NATS with JetStream: a real one, or one in this process until the test ends.
func NATS(t testing.TB) (url string, isReal bool) {
	t.Helper()
	if url = address(t, "nats"); url != "" {
		return url, true
	}
	nats, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal("services: nats:", err)
	}
	nats.Start()
	t.Cleanup(func() {
		nats.Shutdown()
		nats.WaitForShutdown()
	})
	if !nats.ReadyForConnections(startTimeout) {
		t.Fatalf("services: nats: not ready after %s", startTimeout)
	}
	return nats.ClientURL(), false
}

// Redis gives the redis:// URL of a Redis: a real one, or miniredis until the test ends.
func Redis(t testing.TB) (url string, isReal bool) {
	t.Helper()
	if url = address(t, "redis"); url != "" {
		return url, true
	}
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		t.Fatal("services: redis:", err)
	}
	t.Cleanup(redis.Close)
	return "redis://" + redis.Addr(), false
}

// AMQP gives the amqp:// URL of a real RabbitMQ. There is no stand-in: without a real one it is empty.
func AMQP(t testing.TB) (url string, isReal bool) {
	t.Helper()
	url = address(t, "rabbitmq")
	return url, url != ""
}

// Postgres gives the URL of database postgres, as a superuser, of the server that the real PgBouncer is in front of, or of
// the one that testdb runs. Tests that need no pooler use testdb alone.
func Postgres(t testing.TB) (url string, isReal bool) {
	t.Helper()
	if url = address(t, "postgres"); url != "" {
		return url, true
	}
	return testdb.Server(t).URL, false
}
