package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/kafka"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

const patience = brokertest.Patience

var publishBatch, outgoing = brokertest.PublishBatch, brokertest.Outgoing

// open opens a Kafka, with parameters and a group that may be empty.
func open(t testing.TB, addr, parameters, group string) broker.Broker {
	t.Helper()
	return brokertest.Open(t, kafka.Driver{}, "kafka://"+addr+"?"+parameters, group)
}

// newTopic makes a topic with four partitions and some settings, which the broker tells to who asks from then on.
func newTopic(t testing.TB, addr string, config map[string]*string) string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	name := testdb.Random("topic_")
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(t.Context(), 4, 1, config, name)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		found, err := admin.ListTopics(t.Context(), name)
		told, err2 := admin.DescribeTopicConfigs(t.Context(), name)
		return err == nil && err2 == nil && found[name].Err == nil && told[0].Err == nil
	}, patience, 10*time.Millisecond)
	return name
}

// read gives the records that topics have by now, in the order of their partitions.
func read(t testing.TB, addr string, topics ...string) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topics...))
	require.NoError(t, err)
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topics...)
	require.NoError(t, err)
	starts, err := kadm.NewClient(client).ListStartOffsets(t.Context(), topics...)
	require.NoError(t, err)
	left := 0
	ends.Each(func(o kadm.ListedOffset) {
		start, _ := starts.Lookup(o.Topic, o.Partition)
		left += int(o.Offset - start.Offset)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(records) < left {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		records = append(records, fetches.Records()...)
	}
	return records
}

// payloads gives those of a key, in order.
func payloads(records []*kgo.Record, key string) (out []string) {
	for _, r := range records {
		if string(r.Key) == key {
			out = append(out, string(r.Value))
		}
	}
	return out
}

func TestABatchKeepsEachKeyInOrderOnOnePartitionAndSpreadsTheRest(t *testing.T) {
	addr, _ := services.Kafka(t)
	topic := newTopic(t, addr, nil)
	b := open(t, addr, "", "")
	var batch []outbox.Outgoing
	for n := range 100 {
		for key := range 5 {
			batch = append(batch, outgoing(topic, fmt.Sprint("k", key), fmt.Sprint(n)))
		}
	}
	for range 400 {
		batch = append(batch, outgoing(topic, "", strings.Repeat("x", 1000)))
	}
	for _, err := range publishBatch(t, b, batch...) {
		require.NoError(t, err)
	}
	records := read(t, addr, topic)
	require.Len(t, records, 900)
	partitions, unkeyed := map[string]map[int32]bool{}, map[int32]bool{}
	for _, r := range records {
		if r.Key == nil {
			unkeyed[r.Partition] = true
			continue
		}
		if partitions[string(r.Key)] == nil {
			partitions[string(r.Key)] = map[int32]bool{}
		}
		partitions[string(r.Key)][r.Partition] = true
	}
	require.Len(t, partitions, 5)
	for key, on := range partitions {
		require.Len(t, on, 1, "key %s is on one partition", key)
		for n, payload := range payloads(records, key) {
			require.Equal(t, fmt.Sprint(n), payload)
		}
	}
	require.Len(t, unkeyed, 4, "no key is not one key")
}

func TestKeysAreWhereWatermillKafkaPutsThem(t *testing.T) {
	addr, _ := services.Kafka(t)
	ours, theirs := newTopic(t, addr, nil), newTopic(t, addr, nil)
	b := open(t, addr, "", "")
	marshaler := wkafka.NewWithPartitioningMarshaler(func(_ string, msg *message.Message) (string, error) { return outbox.Key(msg), nil })
	publisher, err := wkafka.NewPublisher(wkafka.PublisherConfig{Brokers: []string{addr}, Marshaler: marshaler}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, publisher.Close()) }()
	for i := range 40 {
		out := outgoing(ours, fmt.Sprint("customer ", i), "x")
		require.NoError(t, b.Publisher().Publish(ours, out.Message))
		require.NoError(t, publisher.Publish(theirs, out.Message))
	}
	at := map[string]map[string]int32{ours: {}, theirs: {}}
	for _, r := range read(t, addr, ours, theirs) {
		at[r.Topic][string(r.Key)] = r.Partition
	}
	require.Len(t, at[ours], 40)
	require.Equal(t, at[theirs], at[ours])
}

func TestATooLargeMessageInTheMiddleIsRefusedAndOnlyItsKeyWaits(t *testing.T) {
	addr, _ := services.Kafka(t)
	topic := newTopic(t, addr, nil)
	b := open(t, addr, "compression=none", "")
	var batch []outbox.Outgoing
	for n := range 20 {
		payload := fmt.Sprint(n)
		if n == 10 {
			payload = strings.Repeat("x", 2<<20)
		}
		batch = append(batch, outgoing(topic, "hot", payload), outgoing(topic, "other", fmt.Sprint(n)), outgoing(topic, "", "u"))
	}
	verdicts := publishBatch(t, b, batch...)
	for i, err := range verdicts {
		switch n := i / 3; {
		case i%3 != 0 || n < 10:
			require.NoError(t, err)
		case n == 10:
			var tooLarge *kafka.TooLargeError
			require.ErrorAs(t, err, &tooLarge)
			require.Equal(t, outbox.FailurePermanent, b.Classify(err))
		default:
			require.ErrorIs(t, err, outbox.ErrHeldBack)
		}
	}
	records := read(t, addr, topic)
	require.Len(t, records, 10+20+20)
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, payloads(records, "hot"))
}

// The topic takes less than the broker's answer, some minutes ago, said. What the broker refuses then is a batch of many.
func TestALimitThatWasLoweredMeanwhileConvictsOnlyTheLargeOne(t *testing.T) {
	addr, isReal := services.Kafka(t)
	if !isReal {
		t.Log("kfake does not look at max.message.bytes; the refusals are made by the test")
		return
	}
	topic := newTopic(t, addr, nil)
	b := open(t, addr, "compression=none", "")
	require.NoError(t, publishBatch(t, b, outgoing(topic, "a", "0"))[0])
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	defer client.Close()
	limit := "2000"
	_, err = kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &limit}}, topic)
	require.NoError(t, err)

	batch := []outbox.Outgoing{outgoing(topic, "a", "1"), outgoing(topic, "a", strings.Repeat("x", 5000)), outgoing(topic, "a", "3")}
	for n := range 50 {
		batch = append(batch, outgoing(topic, "b", strings.Repeat("y", 100)), outgoing(topic, "", fmt.Sprint(n)))
	}
	verdicts := publishBatch(t, b, batch...)
	require.NoError(t, verdicts[0])
	require.Equal(t, outbox.FailurePermanent, b.Classify(verdicts[1]))
	require.ErrorIs(t, verdicts[2], outbox.ErrHeldBack)
	for _, err := range verdicts[3:] {
		require.NoError(t, err)
	}
	require.Equal(t, []string{"0", "1"}, payloads(read(t, addr, topic), "a"))
}

// The way to mend a dead letter that was too large: raise the topic's limit, requeue. The limit that was told before must not
// bury it again.
func TestALimitThatWasRaisedMeanwhileCounts(t *testing.T) {
	addr, _ := services.Kafka(t)
	topic := newTopic(t, addr, nil)
	b := open(t, addr, "compression=none", "")
	large := strings.Repeat("x", 2<<20)
	require.Error(t, publishBatch(t, b, outgoing(topic, "a", large))[0])
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	defer client.Close()
	limit := "5000000"
	altered, err := kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &limit}}, topic)
	require.NoError(t, err)
	require.NoError(t, altered[0].Err)
	deadline := time.Now().Add(patience)
	for publishBatch(t, b, outgoing(topic, "a", large))[0] != nil {
		require.True(t, time.Now().Before(deadline), "the new limit is never asked for")
	}
	require.NoError(t, b.Publisher().Publish(topic, outgoing(topic, "b", large).Message))
}

func TestAKeyThatChangesItsTopicIsNotInFlightOnBoth(t *testing.T) {
	addr, _ := services.Kafka(t)
	one, two := newTopic(t, addr, nil), newTopic(t, addr, nil)
	b := open(t, addr, "", "")
	verdicts := publishBatch(t, b,
		outgoing(one, "k", "1"), outgoing(two, "k", "2"), outgoing(two, "k", strings.Repeat("x", 2<<20)), outgoing(one, "k", "4"), outgoing(one, "l", "1"))
	require.NoError(t, verdicts[0])
	require.NoError(t, verdicts[1])
	require.Error(t, verdicts[2])
	require.ErrorIs(t, verdicts[3], outbox.ErrHeldBack)
	require.NoError(t, verdicts[4])
	require.Equal(t, []string{"1"}, payloads(read(t, addr, one), "k"))
}

func TestNullStaysNullAndEmptyStaysEmpty(t *testing.T) {
	addr, _ := services.Kafka(t)
	topic := newTopic(t, addr, nil)
	b := open(t, addr, "", "")
	null, empty := outgoing(topic, "null", ""), outgoing(topic, "empty", "")
	null.Message.Payload = nil
	require.Equal(t, []error{nil, nil}, publishBatch(t, b, null, empty))
	require.NoError(t, b.Publisher().Publish(topic, null.Message, empty.Message))
	records := read(t, addr, topic)
	require.Len(t, records, 4)
	for _, r := range records {
		if string(r.Key) == "null" {
			require.Nil(t, r.Value)
		} else {
			require.NotNil(t, r.Value)
			require.Empty(t, r.Value)
		}
	}
}
