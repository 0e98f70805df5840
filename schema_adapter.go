package outbox

import (
	"database/sql"
	"errors"
	"fmt"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql" //nolint:depguard // the one file that may
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

const (
	defaultSubscriberBatch = 100
	maxSubscriberBatch     = 1000 // take.sql scans no more
)

// SchemaAdapter lets the Publisher and the Subscriber of watermill-sql v3 work on the outbox's table; the Subscriber needs
// an OffsetsAdapter with the same Schema beside it. Its zero value is right for most. It works with lib/pq and with pgx's
// stdlib, and is safe for concurrent use.
//
// The Publisher writes what NewPublisher's writes, and refuses what it refuses, with a MessageError. A call is one
// statement, so its messages may have 64 MiB together.
//
// The Subscriber takes rows, not lanes, so much of what a Forwarder promises it does not:
//
//   - One subscriber of a topic gets its messages by id, as far as they are committed when it asks. With several there is
//     no order, by key or otherwise. Nothing is held back behind a failed message, nor quarantined.
//   - A message is redelivered until it is acked; there are no dead letters. While one is not acked its transaction stays
//     open, with the locks on all rows of its batch, and keeps the server from clearing away settled rows.
//   - What a poll costs grows with the settled rows that are not yet cleared away. Set Schema.TopicIndex when you migrate:
//     without it, a poll goes through the table.
//   - Each Subscribe holds a connection for as long as there are messages: give what its handlers use, an Inbox too, a pool
//     of its own, or they wait for one another. An idle_in_transaction_session_timeout below an hour is raised to that.
//   - A message that was not acked is never lost. An acked one may come again: the last one when the Subscriber is closed,
//     those of the batch when the context of Subscribe ends, AckDeadline passes or the connection breaks.
//
// A Subscriber and Forwarders may share a table, where each message goes to one of them. Neither waits for a row of the
// other's; but the Subscriber, to settle a message behind which a Forwarder has held back others, waits until the claims
// under way in its lane have ended: at most a Forwarder's PassTimeout and PublishTimeout.
//
// watermill-sql refuses topics with characters other than letters, digits and -$:._ in them. The database role needs
// Grants's RoleSubscriber.
type SchemaAdapter struct {
	// Schema names the tables. Defaults to public.outbox.
	Schema Schema

	// BatchSize is how many messages the Subscriber takes at a time, at most 1,000. All of a batch are in memory, and
	// locked until its last one is acked: make it smaller for large or slow messages, or many subscribers. Defaults to
	// 100.
	BatchSize int

	// Key gives a message's ordering key, as PublisherConfig.Key. Defaults to what SetKey has set.
	Key func(topic string, msg *message.Message) (string, error)

	// Check refuses messages, as PublisherConfig.Check. Defaults to none.
	Check func(topic string, msg *message.Message) error

	// MaxPayloadBytes is the largest payload that is taken, as PublisherConfig.MaxPayloadBytes. Defaults to 64 MiB; -1
	// means 255 MiB.
	MaxPayloadBytes int
}

// OffsetsAdapter settles what watermill-sql's Subscriber has acked; see SchemaAdapter. A settled message is deleted.
//
// There are no consumer groups: each message goes to one subscriber, and two groups would take from each other what both
// expect. Subscribe fails with a group, and without the tables or the rights to use them. To serve several consumers,
// forward to a broker.
type OffsetsAdapter struct {
	// Schema names the tables. Defaults to public.outbox; it must be the SchemaAdapter's.
	Schema Schema
}

var (
	_ wsql.SchemaAdapter  = SchemaAdapter{}
	_ wsql.OffsetsAdapter = OffsetsAdapter{}
)

// batchSoFar travels with a row from the SchemaAdapter to the OffsetsAdapter, as its ExtraData under batchEntry.
type batchSoFar struct {
	names   pgsql.Names
	holding bool // it, or a row before it, holds back others
}

const batchEntry = "outbox_batch"

// Validate reports everything wrong with the configuration, each problem with its field. Publish, and each poll
// of a Subscriber, say the same.
func (a SchemaAdapter) Validate() error {
	var size error
	if a.BatchSize < 0 || a.BatchSize > maxSubscriberBatch {
		size = fmt.Errorf("outbox: SchemaAdapter.BatchSize: %d is not between 1 and %d, nor 0 for the default", a.BatchSize, maxSubscriberBatch)
	}
	return errors.Join(a.Schema.Validate(), size, validateMaxPayload("SchemaAdapter", a.MaxPayloadBytes))
}

// InsertQuery implements watermill-sql's interface. Its error is a MessageError, or Validate's.
func (a SchemaAdapter) InsertQuery(topic string, messages message.Messages) (wsql.Query, error) {
	if err := a.Validate(); err != nil {
		return wsql.Query{}, err
	}
	statements := pgsql.Render(a.Schema.names())
	if len(messages) == 0 {
		return wsql.Query{Query: statements.Nothing}, nil
	}
	config := PublisherConfig{Schema: a.Schema, Key: a.Key, Check: a.Check, MaxPayloadBytes: a.MaxPayloadBytes}.withDefaults()
	rows, err := config.prepare(topic, messages)
	if err != nil {
		return wsql.Query{}, err
	}
	if len(messages) == 1 {
		return wsql.Query{Query: statements.InsertOne, Args: insertOneArgs(topic, messages[0], rows[0])}, nil
	}
	if end := chunkEnd(rows, 0); end < len(rows) {
		return wsql.Query{}, &MessageError{Index: end, UUID: messages[end].UUID, Field: "message", Reason: fmt.Sprintf(
			"is too much, with those before it, for the one statement of a call, which takes %d bytes; publish fewer messages a call", chunkBytes)}
	}
	return wsql.Query{Query: statements.Insert, Args: insertArgs(topic, messages, rows)}, nil
}

// SelectQuery implements watermill-sql's interface.
func (a SchemaAdapter) SelectQuery(topic, consumerGroup string, offsets wsql.OffsetsAdapter) wsql.Query {
	err := a.Validate()
	if o, ours := offsets.(OffsetsAdapter); ours && err == nil && o.Schema.names() != a.Schema.names() {
		err = fmt.Errorf("outbox: OffsetsAdapter.Schema: is %s, it must be the SchemaAdapter's %s", o.Schema, a.Schema)
	}
	if err = errors.Join(err, refuseGroup(consumerGroup)); err != nil {
		return refusal(err)
	}
	size := a.BatchSize
	if size == 0 {
		size = defaultSubscriberBatch
	}
	return take(a.Schema, topic, size)
}

func take(schema Schema, topic string, size int) wsql.Query {
	return wsql.Query{Query: pgsql.Render(schema.names()).Take, Args: []any{topic, size}}
}

// UnmarshalMessage implements watermill-sql's interface. A row's offset is its position in its batch, from 1. Whatever the
// row contains, there is a message in it: one that failed here would stop its topic for ever.
func (a SchemaAdapter) UnmarshalMessage(scanner wsql.Scanner) (wsql.Row, error) {
	var row wsql.Row
	var key string
	batch := batchSoFar{names: a.Schema.names()}
	err := scanner.Scan(&row.Offset, &row.UUID, &key, &row.Payload, &row.Metadata, &batch.holding)
	if err != nil {
		return wsql.Row{}, fmt.Errorf("outbox: reading a row of %s: %w", a.Schema, err)
	}
	row.Msg = message.NewMessage(string(row.UUID), row.Payload)
	decodeAnyMetadata(string(row.Metadata), row.Msg.Metadata)
	leaveOutbox(row.Msg.Metadata, key)
	row.ExtraData = map[string]any{batchEntry: batch}
	return row, nil
}

// SchemaInitializingQueries gives none: Migrate makes the tables, not who publishes or subscribes.
func (SchemaAdapter) SchemaInitializingQueries(string) []wsql.Query { return nil }

// SubscribeIsolationLevel is read committed, whatever the database's default: what is taken and released must be judged
// by its newest version.
func (SchemaAdapter) SubscribeIsolationLevel() sql.IsolationLevel { return sql.LevelReadCommitted }

// Validate reports everything wrong with the configuration, each problem with its field. Subscribe says the same.
func (a OffsetsAdapter) Validate() error { return a.Schema.Validate() }

// BeforeSubscribingQueries makes Subscribe fail at once where it could not work.
func (a OffsetsAdapter) BeforeSubscribingQueries(topic, consumerGroup string) []wsql.Query {
	if err := errors.Join(a.Validate(), refuseGroup(consumerGroup)); err != nil {
		return []wsql.Query{refusal(err)}
	}
	return []wsql.Query{take(a.Schema, topic, 0), a.settle(0)}
}

// AckMessageQuery settles the rows of a batch up to the last that was acked, and no others.
func (a OffsetsAdapter) AckMessageQuery(_ string, row wsql.Row, _ string) wsql.Query {
	batch, ours := row.ExtraData[batchEntry].(batchSoFar)
	switch {
	case !ours:
		return refusal(errors.New("outbox: OffsetsAdapter: the row is of another SchemaAdapter; it must be this library's"))
	case batch.names != a.Schema.names():
		return refusal(fmt.Errorf("outbox: OffsetsAdapter.Schema: is %s, it must be the SchemaAdapter's", a.Schema))
	case batch.holding:
		statements := pgsql.Render(batch.names)
		return wsql.Query{Query: statements.SettleHolding(row.Offset)}
	}
	return a.settle(row.Offset)
}

func (a OffsetsAdapter) settle(acked int64) wsql.Query {
	return wsql.Query{Query: pgsql.Render(a.Schema.names()).DeleteTaken, Args: []any{acked}}
}

// ConsumedMessageQuery gives none: nothing is settled before it is acked.
func (OffsetsAdapter) ConsumedMessageQuery(string, wsql.Row, string, []byte) wsql.Query {
	return wsql.Query{}
}

// NextOffsetQuery gives none: a settled row is gone.
func (OffsetsAdapter) NextOffsetQuery(string, string) wsql.Query { return wsql.Query{} }

// SchemaInitializingQueries gives none: Migrate makes the tables, not who subscribes.
func (OffsetsAdapter) SchemaInitializingQueries(string) []wsql.Query { return nil }

func refuseGroup(consumerGroup string) error {
	if consumerGroup == "" {
		return nil
	}
	return fmt.Errorf("outbox: SubscriberConfig.ConsumerGroup: is %s; leave it empty, for each message goes to one subscriber, or forward to a broker that has groups",
		excerpt(consumerGroup))
}

// refusal is a query that fails with an error's text.
func refusal(err error) wsql.Query { return wsql.Query{Query: pgsql.Refusal(storable(err.Error()))} }
