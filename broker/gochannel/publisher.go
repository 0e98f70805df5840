package gochannel

import (
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// publisher is the message.Publisher of one Open. It is no outbox.BatchPublisher: there is no round trip to save.
type publisher struct {
	channel *channel
	limit   int
	closed  atomic.Bool
}

// Publish keeps one message after the other, and stops at the first that fails.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	t := p.channel.topic(topic)
	for _, msg := range messages {
		if p.closed.Load() {
			return broker.ErrClosed
		}
		if err := t.append(msg, p.limit); err != nil {
			return err
		}
	}
	return nil
}

// Close may be called twice.
func (p *publisher) Close() error {
	p.closed.Store(true)
	return nil
}
