// Package sqlv4 lets the Publisher and the Subscriber of watermill-sql v4 work on the outbox's table, as
// [outbox.SchemaAdapter] and [outbox.OffsetsAdapter] do for v3. Both versions may work on one table, beside Forwarders.
//
//	subscriber, _ := sql.NewSubscriber(sql.BeginnerFromPgx(pool), sql.SubscriberConfig{
//		SchemaAdapter:  sqlv4.SchemaAdapter{},
//		OffsetsAdapter: sqlv4.OffsetsAdapter{},
//	}, logger)
package sqlv4

import (
	"database/sql"
	"errors"

	v3 "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// SchemaAdapter is [outbox.SchemaAdapter] for watermill-sql v4: its fields, what it promises and what it does not are the
// same, and its zero value is right for most. The Subscriber needs this package's OffsetsAdapter beside it. It works with
// BeginnerFromPgx, and with BeginnerFromStdSQL over lib/pq or pgx's stdlib, and is safe for concurrent use.
//
// With BeginnerFromPgx v4 does not notice when the server refuses a poll after it has begun, for a right that was taken
// away or a statement_timeout: nothing is logged, and it asks again after PollInterval, as if there were no messages.
// Subscribe tries the statements once, and fails where they can't work.
//
// An AckDeadline of 0, which v3 refuses, means none: a message that is never acked then holds its batch for ever.
type SchemaAdapter outbox.SchemaAdapter

// OffsetsAdapter is [outbox.OffsetsAdapter] for watermill-sql v4. Stopped in the middle of a batch, v4 tells it all rows of
// the batch and which was the last to be acked; it settles those up to that one.
type OffsetsAdapter outbox.OffsetsAdapter

var (
	_ wsql.SchemaAdapter  = SchemaAdapter{}
	_ wsql.OffsetsAdapter = OffsetsAdapter{}
)

// Validate is [outbox.SchemaAdapter.Validate]. Publish, and each poll of a Subscriber, say the same.
func (a SchemaAdapter) Validate() error { return outbox.SchemaAdapter(a).Validate() }

// InsertQuery implements watermill-sql's interface. Its error is an [outbox.MessageError], or Validate's.
func (a SchemaAdapter) InsertQuery(params wsql.InsertQueryParams) (wsql.Query, error) {
	query, err := outbox.SchemaAdapter(a).InsertQuery(params.Topic, params.Msgs)
	return wsql.Query(query), err
}

// SelectQuery implements watermill-sql's interface. Its error is Validate's, or tells that the OffsetsAdapter or the
// consumer group does not fit.
func (a SchemaAdapter) SelectQuery(params wsql.SelectQueryParams) (wsql.Query, error) {
	var offsets v3.OffsetsAdapter
	if o, ours := params.OffsetsAdapter.(OffsetsAdapter); ours {
		offsets = outbox.OffsetsAdapter(o)
	}
	return converted(outbox.SchemaAdapter(a).SelectQuery(params.Topic, params.ConsumerGroup, offsets))
}

// UnmarshalMessage is [outbox.SchemaAdapter.UnmarshalMessage]: whatever the row contains, there is a message in it.
func (a SchemaAdapter) UnmarshalMessage(params wsql.UnmarshalMessageParams) (wsql.Row, error) {
	row, err := outbox.SchemaAdapter(a).UnmarshalMessage(params.Row)
	return wsql.Row(row), err
}

// SchemaInitializingQueries gives none: [outbox.Migrate] makes the tables, not who publishes or subscribes.
func (SchemaAdapter) SchemaInitializingQueries(wsql.SchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}

// SubscribeIsolationLevel is [outbox.SchemaAdapter.SubscribeIsolationLevel].
func (a SchemaAdapter) SubscribeIsolationLevel() sql.IsolationLevel {
	return outbox.SchemaAdapter(a).SubscribeIsolationLevel()
}

// Validate is [outbox.OffsetsAdapter.Validate]. Subscribe says the same.
func (a OffsetsAdapter) Validate() error { return outbox.OffsetsAdapter(a).Validate() }

// BeforeSubscribingQueries makes Subscribe fail at once where it could not work.
func (a OffsetsAdapter) BeforeSubscribingQueries(params wsql.BeforeSubscribingQueriesParams) ([]wsql.Query, error) {
	var queries []wsql.Query
	for _, q := range outbox.OffsetsAdapter(a).BeforeSubscribingQueries(params.Topic, params.ConsumerGroup) {
		query, err := converted(q)
		if err != nil {
			return nil, err
		}
		queries = append(queries, query)
	}
	return queries, nil
}

// AckMessageQuery settles the rows of a batch up to LastRow, and no others: of params.Rows some may not be acked.
func (a OffsetsAdapter) AckMessageQuery(params wsql.AckMessageQueryParams) (wsql.Query, error) {
	return converted(outbox.OffsetsAdapter(a).AckMessageQuery(params.Topic, v3.Row(params.LastRow), params.ConsumerGroup))
}

// ConsumedMessageQuery gives none: nothing is settled before it is acked.
func (OffsetsAdapter) ConsumedMessageQuery(wsql.ConsumedMessageQueryParams) (wsql.Query, error) {
	return wsql.Query{}, nil
}

// NextOffsetQuery gives none: a settled row is gone.
func (OffsetsAdapter) NextOffsetQuery(wsql.NextOffsetQueryParams) (wsql.Query, error) {
	return wsql.Query{}, nil
}

// SchemaInitializingQueries gives none: [outbox.Migrate] makes the tables, not who subscribes.
func (OffsetsAdapter) SchemaInitializingQueries(wsql.OffsetsSchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}

// converted makes an error of a query that fails, by which v3's interface lets an adapter refuse: with BeginnerFromPgx v4
// would take the failure of a poll for an empty table.
func converted(query v3.Query) (wsql.Query, error) {
	if reason, refused := pgsql.Refused(query.Query); refused {
		return wsql.Query{}, errors.New(reason)
	}
	return wsql.Query(query), nil
}
