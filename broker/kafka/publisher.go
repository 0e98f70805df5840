package kafka

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/fresh"
)

// publisher is the message.Publisher and outbox.BatchPublisher of a Kafka.
type publisher struct {
	single  *kgo.Client // for Publish; what comes at the same time shares requests
	batches clients
	topics  *topics
	closed  atomic.Bool
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
	if p.closed.Load() {
		return broker.ErrClosed
	}
	ctx, cancel := fresh.Context(msg.Context())
	defer cancel()
	if err := p.look(ctx, topic); err != nil {
		return err
	}
	r, err := p.sized(ctx, topic, outbox.Key(msg), msg)
	if err != nil {
		return err
	}
	err = p.single.ProduceSync(ctx, r).FirstErr()
	if recreated(err) {
		p.single.PurgeTopicsFromProducing(topic)
	}
	if refused(err) { // perhaps for another message of the same request
		p.topics.forget(topic)
		err = p.batches.flush(ctx, []*kgo.Record{clone(r)})[0]
	}
	return err
}

// PublishBatch publishes many messages at once, those of a key in order; see outbox.BatchPublisher.
func (p *publisher) PublishBatch(ctx context.Context, batch []outbox.Outgoing) []error {
	f := &flight{p: p, batch: batch, verdicts: make([]error, len(batch)), records: make([]*kgo.Record, len(batch)), failed: map[string]int{}}
	if err := p.look(ctx, f.topics()...); err != nil {
		for i := range f.verdicts {
			f.verdicts[i] = err
		}
		return f.verdicts
	}
	rest := make([]int, len(batch))
	for i := range rest {
		rest[i] = i
	}
	for len(rest) > 0 {
		var wave []int
		wave, rest = f.wave(ctx, rest)
		f.send(ctx, wave)
	}
	for i, err := range f.verdicts { // one that can't be sent may have been found before an earlier one of its key failed
		if err != nil {
			f.hold(i)
		}
	}
	return f.verdicts
}

// look asks for the topics that are not known yet.
func (p *publisher) look(ctx context.Context, names ...string) error {
	var missing []string
	for _, name := range names {
		if checkTopic(name) == nil && p.topics.missing(name) {
			missing = append(missing, name)
		}
	}
	return p.topics.look(ctx, missing)
}

// sized makes a record that its topic can take. A limit that was raised meanwhile must not bury a message: before one is
// refused the broker is asked again.
func (p *publisher) sized(ctx context.Context, topic, key string, msg *message.Message) (*kgo.Record, error) {
	r, err := p.record(topic, key, msg)
	var tooLarge *TooLargeError
	if !errors.As(err, &tooLarge) || !p.topics.askAgain(topic) {
		return r, err
	}
	if err := p.look(ctx, topic); err != nil {
		return nil, err
	}
	return p.record(topic, key, msg)
}

// record makes a record, if it is not larger than its topic is known to take.
func (p *publisher) record(topic, key string, msg *message.Message) (*kgo.Record, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	limit, told, err := p.topics.limit(topic)
	if err != nil {
		return nil, err
	}
	r, err := record(topic, key, msg)
	if err != nil {
		return nil, err
	}
	if bytes := size(r); bytes > maxBatchBytes || told && bytes > limit {
		return nil, &TooLargeError{Topic: topic, Bytes: bytes, Limit: limit}
	}
	return r, nil
}

// clone gives a record that can be produced again.
func clone(r *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
}

// Close ends what is under way, which fails. It may be called twice.
func (p *publisher) Close() error {
	if !p.closed.Swap(true) {
		p.batches.close()
		p.single.Close()
	}
	return nil
}
