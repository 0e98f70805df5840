package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
)

// kafkaCounter sends to a topic of its own what the load calls its topic, and counts what is acknowledged.
type kafkaCounter struct {
	*measure.Counter
	topic string
}

// batchCounter counts a driver's verdicts.
type batchCounter struct {
	*kafkaCounter
	to outbox.BatchPublisher
}

// PublishBatch passes a batch on.
func (c *batchCounter) PublishBatch(ctx context.Context, batch []outbox.Outgoing) []error {
	for i := range batch {
		batch[i].Topic = c.topic
	}
	verdicts := c.to.PublishBatch(ctx, batch)
	for i, err := range verdicts {
		if err == nil {
			_ = c.Publish("", batch[i].Message)
		}
	}
	return verdicts
}

// singleCounter counts a publisher's successes.
type singleCounter struct {
	*kafkaCounter
	to message.Publisher
}

// Publish passes a message on.
func (c *singleCounter) Publish(_ string, messages ...*message.Message) error {
	if err := c.to.Publish(c.topic, messages...); err != nil {
		return err
	}
	return c.Counter.Publish("", messages...)
}

var kafkaTopics atomic.Int64

// newKafkaTopic makes a topic with four partitions.
func newKafkaTopic(ctx context.Context, addr string) (string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return "", fmt.Errorf("kafka: %w", err)
	}
	defer client.Close()
	name := fmt.Sprintf("bench-%d-%d", time.Now().UnixNano(), kafkaTopics.Add(1))
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 4, 1, nil, name); err != nil {
		return "", fmt.Errorf("kafka: topic: %w", err)
	}
	return name, nil
}

// readKafkaTopic gives the ledger every message of a topic, and deletes it. There must be neither fewer than expected nor
// more.
func readKafkaTopic(ctx context.Context, addr, topic string, expected int, ledger *measure.Ledger) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic))
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	have := 0
	ends.Each(func(o kadm.ListedOffset) { have += int(o.Offset) })
	if have != expected {
		return fmt.Errorf("kafka: the topic has %d messages instead of %d", have, expected)
	}
	for read := 0; read < have; {
		fetches := client.PollFetches(ctx)
		if err := errors.Join(fetches.Err(), ctx.Err()); err != nil {
			return fmt.Errorf("kafka: reading: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			ledger.Record(fromRecord(r))
			read++
		})
	}
	_, err = kadm.NewClient(client).DeleteTopic(ctx, topic)
	return err
}

func fromRecord(r *kgo.Record) *message.Message {
	msg := message.NewMessage("", r.Value)
	for _, h := range r.Headers {
		if h.Key == "_watermill_message_uuid" {
			msg.UUID = string(h.Value)
		} else {
			msg.Metadata.Set(h.Key, string(h.Value))
		}
	}
	return msg
}
