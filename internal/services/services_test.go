package services_test

import (
	"bufio"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

const patience = time.Minute

func TestKafkaMakesATopicOfFourPartitionsAndServesWhatItGets(t *testing.T) {
	t.Parallel()
	addr, _ := services.Kafka(t)
	topic := testdb.Random("services-")
	partition, offset := produce(t, addr, topic, "hello")
	require.Equal(t, "hello", consume(t, addr, topic, partition, offset))

	client, err := sarama.NewClient([]string{addr}, kafkaConfig())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	partitions, err := client.Partitions(topic)
	require.NoError(t, err)
	require.Len(t, partitions, 4)
}

func TestAControlledServiceKeepsItsAddressAndItsData(t *testing.T) {
	t.Parallel()
	kafka, isReal := services.Control(t, "kafka")
	if !isReal {
		require.Nil(t, kafka, "a stand-in can't be killed")
		return
	}
	topic := testdb.Random("services-")
	partition, offset := produce(t, kafka.Address, topic, "before")
	require.NoError(t, kafka.Kill())
	_, err := net.DialTimeout("tcp", kafka.Address, patience)
	require.Error(t, err, "nobody is there")
	require.NoError(t, kafka.Start())
	require.Equal(t, "before", consume(t, kafka.Address, topic, partition, offset))
	require.NoError(t, kafka.Stop())
	_, err = net.DialTimeout("tcp", kafka.Address, patience)
	require.Error(t, err, "nobody is there")
	require.NoError(t, kafka.Start())
	require.Equal(t, "before", consume(t, kafka.Address, topic, partition, offset))
}

// Each speaks its protocol: the first line that it says.
func TestNATSAndRedisAnswer(t *testing.T) {
	t.Parallel()
	nats, _ := services.NATS(t)
	info := ask(t, nats, "")
	require.True(t, strings.HasPrefix(info, "INFO "), info)
	require.Contains(t, info, `"jetstream":true`)
	redis, _ := services.Redis(t)
	require.Equal(t, "+PONG\r\n", ask(t, redis, "*1\r\n$4\r\nPING\r\n"))
}

func TestThereIsARealRabbitMQOrNone(t *testing.T) {
	t.Parallel()
	amqp, isReal := services.AMQP(t)
	require.Equal(t, isReal, amqp != "")
	if isReal {
		require.Contains(t, ask(t, amqp, "AMQP\x00\x00\x09\x01"), "RabbitMQ")
	}
}

func TestThePoolerAndTheServerBehindItAreTheSameDatabase(t *testing.T) {
	t.Parallel()
	pooled, direct, isReal := services.PgBouncer(t)
	require.Equal(t, isReal, pooled != direct)
	table := testdb.Random("services_")
	execute(t, direct, "CREATE TABLE public."+table+" ()")
	execute(t, pooled, "DROP TABLE public."+table)
	if isReal {
		config, err := pgx.ParseConfig(pooled)
		require.NoError(t, err)
		config.RuntimeParams["statement_timeout"] = "1000"
		_, err = pgx.ConnectConfig(t.Context(), config)
		require.ErrorContains(t, err, "unsupported startup parameter", "it is strict")
	}
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), statement)
	require.NoError(t, err)
}

// ask gives what a server says to a line, or before any; at most what comes in one piece.
func ask(t *testing.T, address, line string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	conn, err := net.DialTimeout("tcp", u.Host, patience)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = conn.Write([]byte(line))
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	_, err = reader.Peek(1)
	require.NoError(t, err)
	answer, err := reader.Peek(reader.Buffered())
	require.NoError(t, err)
	return string(answer)
}

func kafkaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_3_0_0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Metadata.Retry.Max = 100
	return config
}

func produce(t *testing.T, addr, topic, text string) (partition int32, offset int64) {
	t.Helper()
	producer, err := sarama.NewSyncProducer([]string{addr}, kafkaConfig())
	require.NoError(t, err)
	defer func() { require.NoError(t, producer.Close()) }()
	partition, offset, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(text)})
	require.NoError(t, err)
	return partition, offset
}

func consume(t *testing.T, addr, topic string, partition int32, offset int64) string {
	t.Helper()
	consumer, err := sarama.NewConsumer([]string{addr}, kafkaConfig())
	require.NoError(t, err)
	defer func() { require.NoError(t, consumer.Close()) }()
	messages, err := consumer.ConsumePartition(topic, partition, offset)
	require.NoError(t, err)
	defer func() { require.NoError(t, messages.Close()) }()
	select {
	case msg := <-messages.Messages():
		return string(msg.Value)
	case <-time.After(patience):
		t.Fatal("waited in vain for a message")
		return ""
	}
}
