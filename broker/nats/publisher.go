package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/fresh"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/waves"
)

const (
	// publishTimeout bounds how long an answer is waited for.
	publishTimeout = 30 * time.Second
	// maxInFlight is how many messages a connection sends ahead of their answers. The server refuses what is above 10,000 a
	// stream (max_buffered_msgs).
	maxInFlight = 4000
	// stallTimeout is how long one waits while as many are in flight.
	stallTimeout = 5 * time.Second
	// noBuffer makes a publish fail at once while there is no connection.
	noBuffer = -1
)

// publisher is the message.Publisher and outbox.BatchPublisher of a NATS.
type publisher struct {
	*connection
	streams *streams
}

func newPublisher(s *settings) *publisher {
	c := newConnection(s, noBuffer)
	return &publisher{connection: c, streams: newStreams(s, &c.denials)}
}

// Publish publishes one message after the other, and stops at the first that fails.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := p.publish(topic, msg); err != nil {
			return err
		}
	}
	return nil
}

func (p *publisher) publish(topic string, msg *message.Message) error {
	ctx, cancel := fresh.Context(msg.Context())
	defer cancel()
	l, err := p.get(ctx)
	if err != nil {
		return err
	}
	m, err := p.message(ctx, l, topic, msg)
	if err != nil {
		return err
	}
	return p.verdict(topic, p.denials.guard(ctx, []string{topic}, func(ctx context.Context) error {
		_, err := l.JetStream.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
		return err
	}))
}

// message makes one that the server can take, and sees to it that there is a stream for it.
func (p *publisher) message(ctx context.Context, l *link, topic string, msg *message.Message) (*client.Msg, error) {
	if _, err := p.streams.of(ctx, l, topic); err != nil {
		return nil, err
	}
	m, err := marshal(topic, msg)
	if err != nil {
		return nil, err
	}
	if bytes, limit := size(m), l.MaxPayload(); bytes > limit {
		return nil, &TooLargeError{Topic: topic, Bytes: bytes, Limit: limit}
	}
	return m, nil
}

// verdict gives the text its prefix.
func (p *publisher) verdict(topic string, err error) error {
	if err == nil {
		return nil
	}
	if denied := new(PermissionError); errors.As(err, &denied) {
		return denied
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		p.streams.forget(topic)
	}
	return fmt.Errorf("nats: publishing to %q: %w", topic, err)
}

// PublishBatch publishes many messages at once, those of a key in order; see outbox.BatchPublisher. A stream may take a later
// message although it refused an earlier one, hence the waves.
func (p *publisher) PublishBatch(ctx context.Context, batch []outbox.Outgoing) []error {
	return waves.Publish(ctx, batch, func(ctx context.Context, wave []int, verdicts []error) {
		l, err := p.get(ctx)
		if err != nil {
			for _, i := range wave {
				verdicts[i] = err
			}
			return
		}
		f := flight{p: p, link: l, batch: batch, verdicts: verdicts}
		defer f.end()
		f.send(ctx, wave)
		f.wait(ctx)
	})
}

// Close ends what is under way, which fails. It may be called twice.
func (p *publisher) Close() error { return p.close() }
