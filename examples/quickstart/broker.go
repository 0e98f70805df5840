package main

import (
	"errors"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
)

var errBrokerDown = errors.New("the broker is down")

// broker is Watermill's GoChannel with a switch to break it. In your program it is Kafka, NATS, RabbitMQ, … through
// whatever Watermill publisher you use today.
type broker struct {
	*gochannel.GoChannel
	down    atomic.Bool
	refused atomic.Int64
}

var _ message.Publisher = (*broker)(nil)

func newBroker() *broker {
	// Publish must not return before the message has arrived, or the forwarder would settle what may still be lost.
	config := gochannel.Config{BlockPublishUntilSubscriberAck: true}
	return &broker{GoChannel: gochannel.NewGoChannel(config, watermill.NopLogger{})}
}

// Publish fails while the broker is down. A message that is on its way when it goes down arrives, but the publisher
// never learns so and sends it again: that is where duplicates come from.
func (b *broker) Publish(topic string, messages ...*message.Message) error {
	if b.down.Load() {
		b.refused.Add(1)
		return errBrokerDown
	}
	if err := b.GoChannel.Publish(topic, messages...); err != nil {
		return err
	}
	if b.down.Load() {
		return errBrokerDown
	}
	return nil
}
