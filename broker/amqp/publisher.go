package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/rabbitmq/amqp091-go"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/fresh"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/waves"
)

// publisher is an outbox.BatchPublisher. Each call has a channel for itself, so that what closes one interrupts no other. It is
// safe for concurrent use.
type publisher struct {
	settings
	link *link

	mu   sync.Mutex
	idle []*channel
}

// Publish publishes one message after the other, and stops at the first error.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		ctx, cancel := fresh.Context(msg.Context())
		err := p.PublishBatch(ctx, []outbox.Outgoing{{Topic: topic, Message: msg}})[0]
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// Close lets what is in flight fail with broker.ErrClosed.
func (p *publisher) Close() error { return p.link.close() }

// PublishBatch has many messages in flight, but of a key only one: a queue that is full and rejects may have room again for
// the next.
func (p *publisher) PublishBatch(ctx context.Context, batch []outbox.Outgoing) []error {
	return waves.Publish(ctx, batch, func(ctx context.Context, wave []int, verdicts []error) {
		items := make([]outbox.Outgoing, len(wave))
		for n, i := range wave {
			items[n] = batch[i]
		}
		for n, err := range p.soon(ctx, items) {
			verdicts[wave[n]] = err
		}
	})
}

// soon sends, and returns soon after ctx is done, although the client knows no contexts.
func (p *publisher) soon(ctx context.Context, items []outbox.Outgoing) []error {
	if err := ctx.Err(); err != nil {
		return each(len(items), context.Cause(ctx))
	}
	answer := make(chan []error, 1)
	go func() { answer <- p.send(ctx, items) }()
	select {
	case errs := <-answer:
		return errs
	case <-ctx.Done():
		return each(len(items), context.Cause(ctx))
	}
}

func (p *publisher) send(ctx context.Context, items []outbox.Outgoing) []error {
	live, err := p.link.get(ctx)
	if err == nil {
		err = live.refusal()
	}
	if err != nil {
		return each(len(items), err)
	}
	errs := make([]error, len(items))
	var sent []int
	var parcels []parcel
	topics := map[string]error{}
	for i := range items {
		topic := items[i].Topic
		var publishing amqp091.Publishing
		if publishing, errs[i] = marshal(&items[i], live.Config.FrameSize); errs[i] != nil {
			continue
		}
		if _, known := topics[topic]; !known {
			topics[topic] = p.prepare(live, topic)
		}
		if errs[i] = topics[topic]; errs[i] == nil {
			sent, parcels = append(sent, i), append(parcels, parcel{topic: topic, uuid: items[i].Message.UUID, publishing: publishing})
		}
	}
	for n, err := range p.route(ctx, live, parcels) {
		errs[sent[n]] = err
	}
	for i, err := range errs {
		if _, closed := p.link.peek(); closed != nil && errors.Is(err, amqp091.ErrClosed) {
			errs[i] = fmt.Errorf("amqp: publishing to %q: %w", items[i].Topic, broker.ErrClosed)
		}
	}
	return errs
}

func (p *publisher) onChannel(ctx context.Context, live *live, parcels []parcel) []error {
	if len(parcels) == 0 {
		return nil
	}
	c, err := p.take(live)
	if err != nil {
		return each(len(parcels), fmt.Errorf("amqp: opening a channel: %w", err))
	}
	errs := c.publish(ctx, parcels, !p.drop)
	p.put(c)
	return errs
}

// take gives a channel of the connection.
func (p *publisher) take(live *live) (*channel, error) {
	p.mu.Lock()
	for len(p.idle) > 0 {
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if c.live == live && !c.IsClosed() {
			p.mu.Unlock()
			return c, nil
		}
	}
	p.mu.Unlock()
	return openChannel(live)
}

// put takes a channel back. One with something in flight is closed: its confirms would be taken for those of the next call.
func (p *publisher) put(c *channel) {
	if c.dirty {
		go func() { _ = c.Close() }() // it may wait for the server
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

func each(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
