package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const (
	partitions = 8  // as Kafka's: in order within one, side by side with the others
	redelivers = 10 // one message in so many comes twice
)

var (
	errBrokerDown = errors.New("the broker is down")
	errPoison     = errors.New("the broker chokes on this message")
)

// broker is Watermill's GoChannel with switches to break it. In your program it is Kafka, NATS, RabbitMQ, … through
// whatever Watermill publisher you use today.
type broker struct {
	*gochannel.GoChannel
	down    atomic.Bool
	refused atomic.Int64

	chokes atomic.Bool            // on the regular customer's next message
	poison atomic.Pointer[string] // the message that it choked on, until it is cured
}

var (
	_ message.Publisher  = (*broker)(nil)
	_ message.Subscriber = (*broker)(nil)
)

func newBroker() *broker {
	// Publish must not return before the message has arrived, or the forwarder would settle what may still be lost.
	config := gochannel.Config{BlockPublishUntilSubscriberAck: true}
	return &broker{GoChannel: gochannel.NewGoChannel(config, watermill.NopLogger{})}
}

// Publish fails while the broker is down. A message that is on its way when it goes down arrives, but the publisher
// never learns so and sends it again. That is one place where copies come from; redelivery is another.
func (b *broker) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if b.down.Load() {
			b.refused.Add(1)
			return errBrokerDown
		}
		if b.isPoison(msg) {
			return outbox.Permanent(errPoison) // to try again would be no use
		}
		if err := b.deliver(topic, msg); err != nil {
			return err
		}
		if b.down.Load() {
			return errBrokerDown
		}
	}
	return nil
}

func (b *broker) deliver(topic string, msg *message.Message) error {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(outbox.Key(msg)))
	topic = partition(topic, int(hash.Sum32()%partitions))
	err := b.GoChannel.Publish(topic, msg)
	if err == nil && rand.IntN(redelivers) == 0 {
		err = b.GoChannel.Publish(topic, msg.Copy())
	}
	return err
}

func partition(topic string, n int) string { return fmt.Sprintf("%s/%d", topic, n) }

// isPoison says whether it is the one message that the broker can't take.
func (b *broker) isPoison(msg *message.Message) bool {
	if outbox.Key(msg) != keyOf(regular) {
		return false
	}
	if b.chokes.CompareAndSwap(true, false) {
		b.poison.Store(&msg.UUID)
	}
	poison := b.poison.Load()
	return poison != nil && *poison == msg.UUID
}

// Subscribe merges the partitions.
func (b *broker) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	merged := make(chan *message.Message)
	var open sync.WaitGroup
	for n := range partitions {
		messages, err := b.GoChannel.Subscribe(ctx, partition(topic, n))
		if err != nil {
			return nil, err
		}
		open.Go(func() {
			for msg := range messages {
				merged <- msg
			}
		})
	}
	go func() { open.Wait(); close(merged) }()
	return merged, nil
}
