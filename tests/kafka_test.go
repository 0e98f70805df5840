package tests

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// By watermill-kafka into a Kafka and out again: each key in order and on one partition, unkeyed messages on any, and a
// message as it was written. A nil payload stays Kafka's null, a tombstone; an empty one stays empty.
func TestForwardsThroughWatermillKafka(t *testing.T) {
	const keys, each, partitions = 20, 50, 4
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	received := consume(t, cluster.ListenAddrs())

	pool := testdb.New(t)
	migrate(t, pool)
	publisher := kafkaPublisher(t, cluster.ListenAddrs())
	f, err := outbox.NewForwarder(pool, publisher, outbox.ForwarderConfig{}, nil)
	require.NoError(t, err)
	start(t, f)

	sent := map[string]*message.Message{}
	for number := 1; number <= each; number++ {
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			var batch []*message.Message
			for key := range keys + 1 {
				msg := message.NewMessage(watermill.NewULID(), []byte(strconv.Itoa(number)))
				msg.Metadata.Set("héader", fmt.Sprintf("%d → %d", key, number))
				outbox.SetKey(msg, keyName(key, keys))
				batch = append(batch, msg)
				sent[msg.UUID] = msg
			}
			batch[0].Payload, batch[1].Payload = nil, message.Payload{}
			return write(t.Context(), tx, batch)
		}))
	}

	last, partitionOf, unkeyed := map[string]int{}, map[string]int32{}, map[int32]bool{}
	nulls, empties := 0, 0
	for range len(sent) {
		msg := receive(t, received)
		original := sent[msg.UUID]
		require.NotNil(t, original, "a message comes once, and with its uuid")
		delete(sent, msg.UUID)
		partition, ok := kafka.MessagePartitionFromCtx(msg.Context())
		require.True(t, ok)
		require.Equal(t, original.Metadata, msg.Metadata)
		require.Equal(t, original.Payload, msg.Payload, "nil and empty are different")
		key := outbox.Key(msg)
		if key == "" {
			unkeyed[partition] = true
			continue
		}
		switch {
		case msg.Payload == nil:
			nulls++
		case len(msg.Payload) == 0:
			empties++
		default:
			number, err := strconv.Atoi(string(msg.Payload))
			require.NoError(t, err)
			require.Equal(t, last[key]+1, number, "key %s in order", key)
			last[key] = number
		}
		if at, ok := partitionOf[key]; ok {
			require.Equal(t, at, partition, "key %s on one partition", key)
		}
		partitionOf[key] = partition
	}
	t.Logf("%d keys on their partitions, %d messages each; unkeyed ones on %d of %d partitions; %d nulls, %d empty", len(partitionOf), each, len(unkeyed), partitions, nulls, empties)
	require.Len(t, unkeyed, partitions, "no key is not the key of that name")
	require.Equal(t, each, nulls)
	require.Equal(t, each, empties)
	eventually(t, "everything is settled", func() bool { return count(t, pool, "public.outbox") == 0 })
}

// keyName gives "" for the last.
func keyName(n, keys int) string {
	if n == keys {
		return ""
	}
	return fmt.Sprint("k", n)
}

func write(ctx context.Context, tx pgx.Tx, batch []*message.Message) error {
	publisher, err := outbox.NewPgxPublisher(tx, outbox.PublisherConfig{}, nil)
	if err != nil {
		return err
	}
	batch[0].SetContext(ctx)
	return publisher.Publish(topic, batch...)
}

func receive(t testing.TB, from <-chan *message.Message) *message.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case msg := <-from:
		msg.Ack()
		return msg
	case <-ctx.Done():
		t.Fatal("waited in vain for a message")
		return nil
	}
}

// marshaler gives the outbox's key to Kafka, and none when there is none: with the empty key, which
// NewWithPartitioningMarshaler would give, all unkeyed messages would go to one partition.
type marshaler struct{ kafka.DefaultMarshaler }

// Marshal adds the key.
func (m marshaler) Marshal(topic string, msg *message.Message) (*sarama.ProducerMessage, error) {
	record, err := m.DefaultMarshaler.Marshal(topic, msg)
	if key := outbox.Key(msg); err == nil && key != "" {
		record.Key = sarama.StringEncoder(key)
	}
	return record, err
}

// kafkaVersion is the newest that watermill-kafka's sarama and the fake Kafka agree on.
var kafkaVersion = sarama.V2_3_0_0

// kafkaPublisher is one whose success means that the broker has the message, once and in order.
func kafkaPublisher(t testing.TB, brokers []string) message.Publisher {
	t.Helper()
	config := kafka.DefaultSaramaSyncPublisherConfig()
	config.Version = kafkaVersion
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: brokers, Marshaler: marshaler{}, OverwriteSaramaConfig: config}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, publisher.Close()) })
	return publisher
}

func consume(t testing.TB, brokers []string) <-chan *message.Message {
	t.Helper()
	config := kafka.DefaultSaramaSubscriberConfig()
	config.Version = kafkaVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: brokers, Unmarshaler: marshaler{}, ConsumerGroup: "test", OverwriteSaramaConfig: config,
	}, watermill.NopLogger{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, subscriber.Close()) })
	received, err := subscriber.Subscribe(context.WithoutCancel(t.Context()), topic)
	require.NoError(t, err)
	return received
}
