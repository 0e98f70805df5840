package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// DeadLetters is the operator's tool for messages that were given up: to look at them, to send them again, to drop them.
// They are kept until somebody does one or the other. It needs RoleOperator, keeps nothing on a connection, so that it works
// behind a pooler, and may be used concurrently, by any number of processes and beside running forwarders.
type DeadLetters struct {
	pool   *pgxpool.Pool
	schema Schema
	sql    pgsql.Statements
	logger watermill.LoggerAdapter
}

// DeadLetter is a message that was given up, or that followed one of its key.
type DeadLetter struct {
	// ID that the message had in the outbox, and will have there again.
	ID int64
	// Topic to which it was to be published.
	Topic string
	// Key is its ordering key; "" = none.
	Key string
	// UUID of the message.
	UUID string
	// Payload of the message; nil if it has none.
	Payload []byte
	// Metadata of the message, as they are stored; nil if they are no JSON object of strings, which is then why it died.
	Metadata message.Metadata
	// Attempts is the number of failures that were charged to it.
	Attempts int
	// LastError is the text of the last of them; "" for most of a tail.
	LastError string
	// CreatedAt is when it was published to the outbox.
	CreatedAt time.Time
	// DiedAt is when it became a dead letter.
	DiedAt time.Time
	// Age is the time since then, by the database's clock, at least 0.
	Age time.Duration
	// Quarantines says that its key is quarantined: what is published with the key follows it into the dead letters.
	Quarantines bool
	// Tail says that it never failed itself, but followed one of its key that did.
	Tail bool
}

// NewDeadLetters gives the tool for a schema's dead letters. It does no I/O. The pool remains the caller's.
func NewDeadLetters(pool *pgxpool.Pool, schema Schema) (*DeadLetters, error) {
	problems := schema.Validate()
	if pool == nil {
		problems = errors.Join(errNilPool, problems)
	}
	if problems != nil {
		return nil, problems
	}
	return &DeadLetters{pool: pool, schema: schema, sql: pgsql.Render(schema.names()), logger: watermill.NopLogger{}}, nil
}

// WithLogger gives a view of d that logs; nil = not at all.
func (d *DeadLetters) WithLogger(logger watermill.LoggerAdapter) *DeadLetters {
	view := *d
	view.logger = logger
	if isNil(logger) {
		view.logger = watermill.NopLogger{}
	}
	return &view
}

// List gives what the filter selects, ordered by id, with the payloads: Limit bounds the memory. For the next page set
// AfterID to the last letter's id; a page is longer than Limit rather than to end between two letters of one id.
func (d *DeadLetters) List(ctx context.Context, filter DeadLetterFilter) ([]DeadLetter, error) {
	if err := errors.Join(given(ctx, d.pool), filter.Validate()); err != nil {
		return nil, err
	}
	var letters []DeadLetter
	err := d.transaction(ctx, pgx.ReadOnly, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, d.sql.DeadList, filter.args(listLimit)...)
		if err != nil {
			return err
		}
		letters, err = pgx.CollectRows(rows, readLetter)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("outbox: listing the dead letters of %s: %w", d.schema, withSchemaHint(err))
	}
	return letters, nil
}

func readLetter(row pgx.CollectableRow) (DeadLetter, error) {
	var l DeadLetter
	var metadata string
	var created, died, age *int64
	err := row.Scan(&l.ID, &l.Topic, &l.Key, &l.UUID, &l.Payload, &metadata, &l.Attempts, &l.LastError,
		&created, &died, &age, &l.Quarantines, &l.Tail)
	if err != nil {
		return DeadLetter{}, err
	}
	l.Metadata = message.Metadata{}
	if decodeMetadata(metadata, l.Metadata) != nil {
		l.Metadata = nil
	}
	if created != nil {
		l.CreatedAt = time.UnixMicro(*created).UTC()
	}
	if died != nil {
		l.DiedAt = time.UnixMicro(*died).UTC()
	}
	if age != nil {
		l.Age = time.Duration(*age) * time.Microsecond
	}
	return l, nil
}

// Requeue moves what the filter selects back to the outbox, with its id and no attempts, to be forwarded at once, and
// says how many letters that were. All or nothing: after an error nothing was changed, unless the error says that it is
// not known.
//
// The letters of a quarantined key go as a whole, however few of them are selected, and the quarantine is over: they are
// forwarded in their order, and what is published with the key waits for them. Other letters go alone, and take their place
// before whatever has a higher id and has not been forwarded.
//
// It waits for forwarders that are publishing messages of the same lanes (a key's messages share one of 64), for as long
// as PassTimeout and PublishTimeout let them; meanwhile no other forwarder gets the lanes that it already has. Its context
// bounds that. What dies while it waits may be left.
//
// An Inbox remembers message ids for 30 days by default. A letter that was published before may run its consumer's effects
// once more, if they had been run; with a logger there is a line that says how many of those were requeued.
//
// Until they are forwarded, Stats counts requeued letters as Parked if they were quarantined, else as Delayed.
func (d *DeadLetters) Requeue(ctx context.Context, filter DeadLetterFilter) (int64, error) {
	return d.move(ctx, "requeueing", d.sql.DeadRequeue, filter)
}

// Discard deletes what the filter selects, for ever, and says how many letters that were. All or nothing, and waiting, are
// as for Requeue.
//
// A quarantined key whose last failed letter goes is free again: those that only followed it go back to the outbox and are
// forwarded in their order, as after a Requeue. They don't count. Discarding a part of those that followed changes nothing
// for the rest. With a logger there is a line about old ones that go back, as for Requeue.
func (d *DeadLetters) Discard(ctx context.Context, filter DeadLetterFilter) (int64, error) {
	return d.move(ctx, "discarding", d.sql.DeadDiscard, filter)
}
