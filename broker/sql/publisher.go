package sql

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/fresh"
)

var (
	//go:embed statements/insert.sql
	insertStatement string
	//go:embed statements/durable.sql
	durableStatement string
)

// InvalidMetadataError says that a message's metadata have what JSON can't: bytes that are not UTF-8.
type InvalidMetadataError struct{ Name string }

// Error names the entry.
func (e *InvalidMetadataError) Error() string {
	return fmt.Sprintf("sql: metadata %q: its name and its value must be UTF-8", e.Name)
}

// publisher is the message.Publisher and outbox.BatchPublisher. It is not watermill-sql's, which knows no context, and
// makes tables before it looks whether they are there.
type publisher struct {
	pool         *pgxpool.Pool
	tables       tables
	topics       *topics
	createTopics bool
	closed       atomic.Bool
}

// Publish publishes one message after the other, and stops at the first that fails.
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

// PublishBatch publishes many messages in one transaction, if none is refused; see outbox.BatchPublisher.
func (p *publisher) PublishBatch(ctx context.Context, batch []outbox.Outgoing) []error {
	f := &flight{p: p, batch: batch, metadata: make([]string, len(batch)), verdicts: make([]error, len(batch)), failed: map[string]bool{}}
	var all []int
	for i := range batch {
		if f.hold(i) {
			continue
		}
		if err := f.check(i); err != nil {
			f.fail(i, err)
			continue
		}
		all = append(all, i)
	}
	f.send(ctx, all)
	return f.verdicts
}

// Close lets what is under way end, and leaves the pool to the database. It may be called twice.
func (p *publisher) Close() error {
	p.closed.Store(true)
	return nil
}

// flight is a batch on its way.
type flight struct {
	p        *publisher
	batch    []outbox.Outgoing
	metadata []string
	verdicts []error
	failed   map[string]bool // keys
}

// check looks for what can be known without the server, and encodes the metadata.
func (f *flight) check(i int) error {
	if err := validateTopic(f.batch[i].Topic); err != nil {
		return err
	}
	metadata := f.batch[i].Message.Metadata
	for name, value := range metadata {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return &InvalidMetadataError{name}
		}
	}
	if metadata == nil {
		metadata = message.Metadata{} // null would be read as a map that nothing can be put into
	}
	text, err := json.Marshal(metadata)
	f.metadata[i] = string(text)
	return err
}

// hold says whether an earlier message of the key failed, and gives the verdict then.
func (f *flight) hold(i int) bool {
	held := f.failed[f.batch[i].Key]
	if held {
		f.verdicts[i] = outbox.ErrHeldBack
	}
	return held
}

func (f *flight) fail(i int, err error) {
	f.verdicts[i] = err
	if key := f.batch[i].Key; key != "" {
		f.failed[key] = true
	}
}

// send publishes messages in one transaction. If it is refused, it does so with each half, the second one without what is
// behind a failure of the first.
func (f *flight) send(ctx context.Context, part []int) {
	var tried []int
	for _, i := range part {
		if !f.hold(i) {
			tried = append(tried, i)
		}
	}
	if len(tried) == 0 {
		return
	}
	err := f.p.insert(ctx, f, tried)
	switch {
	case err == nil:
	case len(tried) == 1 || isOutage(err) || ctx.Err() != nil:
		for _, i := range tried {
			f.fail(i, err)
		}
	default:
		half := len(tried) / 2
		f.send(ctx, tried[:half])
		f.send(ctx, tried[half:])
	}
}

// insert makes tables that are missing, if it may.
func (p *publisher) insert(ctx context.Context, f *flight, part []int) error {
	err := p.transaction(ctx, f, part)
	if sqlState(err) != undefinedTable || !p.createTopics {
		return err
	}
	made := map[string]bool{}
	for _, i := range part {
		topic := f.batch[i].Topic
		if made[topic] {
			continue
		}
		made[topic] = true
		if err := p.topics.createMessages(ctx, topic); err != nil {
			return closedAs(err)
		}
	}
	return p.transaction(ctx, f, part)
}

// transaction inserts all or nothing.
func (p *publisher) transaction(ctx context.Context, f *flight, part []int) error {
	if p.closed.Load() {
		return broker.ErrClosed
	}
	var order []string
	rows := map[string]*columns{}
	for _, i := range part {
		topic := f.batch[i].Topic
		c := rows[topic]
		if c == nil {
			c = &columns{}
			rows[topic] = c
			order = append(order, topic)
		}
		msg := f.batch[i].Message
		c.uuids, c.payloads, c.metadata = append(c.uuids, msg.UUID), append(c.payloads, msg.Payload), append(c.metadata, f.metadata[i])
	}
	// What is sent in one pgx.Batch is one transaction: up to the protocol's next Sync.
	b := &pgx.Batch{}
	b.Queue(durableStatement)
	for _, topic := range order {
		c := rows[topic]
		b.Queue(strings.Replace(insertStatement, "{messages}", p.tables.messages(topic), 1), c.uuids, c.payloads, c.metadata)
	}
	err := p.pool.SendBatch(ctx, b).Close()
	if err != nil && p.closed.Load() && sqlState(err) == "" {
		return broker.ErrClosed // also for a connection that was being made, which the pool only cancels
	}
	return err
}

// columns are the rows for one table.
type columns struct {
	uuids    []string
	payloads [][]byte
	metadata []string
}

// closedAs gives broker.ErrClosed for a pool's that is closed.
func closedAs(err error) error {
	if errors.Is(err, puddle.ErrClosedPool) {
		return broker.ErrClosed
	}
	return err
}
