package sql

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/fresh"
)

// publisher is the message.Publisher and outbox.BatchPublisher.
type publisher struct {
	pool           *pgxpool.Pool
	autoInitialize bool
	ctx            context.Context // done when it is closed
	cancel         context.CancelFunc
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
	return p.PublishBatch(ctx, []outbox.Outgoing{{Topic: topic, Message: msg}})[0]
}

// PublishBatch publishes many messages at once, those of a key in order; see outbox.BatchPublisher.
func (p *publisher) PublishBatch(ctx context.Context, batch []outbox.Outgoing) []error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	d := &dispatch{p: p, batch: batch, verdicts: make([]error, len(batch)), failed: map[string]bool{}}
	all := make([]int, 0, len(batch))
	refused, behind := map[int]error{}, map[string]bool{}
	for i := range batch {
		key := batch[i].Key
		if behind[key] {
			d.verdicts[i] = outbox.ErrHeldBack
			continue
		}
		if err := checkTopic(batch[i].Topic); err != nil {
			refused[i], behind[key] = err, key != ""
			continue
		}
		all = append(all, i)
	}
	d.send(ctx, all)
	for i, err := range refused {
		if !d.held(i) { // by one that was sent
			d.verdicts[i] = err
		}
	}
	return d.verdicts
}

// insert writes messages in one transaction, and creates missing tables if it may.
func (p *publisher) insert(ctx context.Context, messages []outbox.Outgoing) error {
	err := p.write(ctx, messages)
	if sqlState(err) != undefinedTable {
		return err
	}
	topics := map[string]bool{}
	for i := range messages {
		topics[messages[i].Topic] = true
	}
	if !p.autoInitialize {
		if len(topics) == 1 {
			return &UnknownTopicError{Topic: messages[0].Topic, err: err}
		}
		return err
	}
	for topic := range topics {
		if err := createTables(ctx, p.pool, topic); err != nil {
			return err
		}
	}
	return p.write(ctx, messages)
}

// write sends the statements together, which makes them one transaction: pgx closes them with one Sync.
func (p *publisher) write(ctx context.Context, messages []outbox.Outgoing) error {
	b := &pgx.Batch{}
	for i := range messages {
		if err := queue(b, messages[i].Topic, messages[i].Message); err != nil {
			return err
		}
	}
	if err := p.pool.SendBatch(ctx, b).Close(); err != nil {
		if p.ctx.Err() != nil {
			return broker.ErrClosed
		}
		return fmt.Errorf("sql: %w", err)
	}
	return nil
}

// Close ends what is under way, which fails. It may be called twice.
func (p *publisher) Close() error {
	p.cancel()
	p.pool.Close()
	return nil
}

// dispatch is a batch on its way.
type dispatch struct {
	p        *publisher
	batch    []outbox.Outgoing
	verdicts []error
	failed   map[string]bool // keys
}

// held says whether an earlier message of the key failed, and gives the verdict then.
func (d *dispatch) held(i int) bool {
	held := d.failed[d.batch[i].Key]
	if held {
		d.verdicts[i] = outbox.ErrHeldBack
	}
	return held
}

func (d *dispatch) fail(i int, err error) {
	d.verdicts[i] = err
	if key := d.batch[i].Key; key != "" {
		d.failed[key] = true
	}
}

// send writes messages, all or nothing. What is refused is sent again in halves, the first before the second, down to the
// messages at fault. In an outage there is nothing to look for.
func (d *dispatch) send(ctx context.Context, indices []int) {
	var messages []outbox.Outgoing
	var rest []int
	for _, i := range indices {
		if !d.held(i) {
			rest, messages = append(rest, i), append(messages, d.batch[i])
		}
	}
	if len(rest) == 0 {
		return
	}
	err := d.p.insert(ctx, messages)
	switch {
	case err == nil:
	case len(rest) == 1 || ctx.Err() != nil || errors.Is(err, broker.ErrClosed) || classify(err) == outbox.FailureOutage:
		for _, i := range rest {
			d.fail(i, err)
		}
	default:
		half := len(rest) / 2
		d.send(ctx, rest[:half])
		d.send(ctx, rest[half:])
	}
}
