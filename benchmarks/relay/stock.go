package relay

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
)

const (
	stockTopic   = "events"
	stockTable   = "watermill_events"
	stockOffsets = "watermill_offsets_events"
)

// Stock is Watermill's own forwarder component over watermill-sql v4, on a pgx pool. One subscriber: a second one on the
// same topic waits for the first one's locks.
type Stock struct {
	Place
	label   string
	schema  wsql.SchemaAdapter
	offsets wsql.OffsetsAdapter
	pending func(context.Context) (int64, error)
	poll    time.Duration
}

// NewStockOffsets uses the default schema, which keeps all rows and remembers an offset.
func NewStockOffsets(place Place, batch int) *Stock {
	s := &Stock{Place: place, label: fmt.Sprintf("stock forwarder, offsets, batch %d", batch)}
	s.schema = wsql.DefaultPostgreSQLSchema{
		SubscribeBatchSize: batch, GenerateMessagesTableName: func(string) string { return s.Table() },
	}
	s.offsets = wsql.DefaultPostgreSQLOffsetsAdapter{
		GenerateMessagesOffsetsTableName: func(string) string { return s.table(stockOffsets) },
	}
	s.pending = func(ctx context.Context) (int64, error) {
		return s.count(ctx, `SELECT count(*) FROM `+s.Table()+` m WHERE NOT EXISTS (SELECT FROM `+s.table(stockOffsets)+` o
			WHERE (m.transaction_id, m."offset") <= (o.last_processed_transaction_id, o.offset_acked))`)
	}
	return s
}

// NewStockQueue uses the queue schema, which deletes what was acked. A poll of 0 is its default.
func NewStockQueue(place Place, batch int, poll time.Duration) *Stock {
	s := &Stock{Place: place, poll: poll, label: fmt.Sprintf("stock forwarder, queue, batch %d", batch)}
	s.schema = wsql.PostgreSQLQueueSchema{
		SubscribeBatchSize: batch, GenerateMessagesTableName: func(string) string { return s.Table() },
	}
	s.offsets = wsql.PostgreSQLQueueOffsetsAdapter{
		DeleteOnAck: true, GenerateMessagesTableName: func(string) string { return s.Table() },
	}
	s.pending = func(ctx context.Context) (int64, error) {
		return s.count(ctx, `SELECT count(*) FROM `+s.Table())
	}
	return s
}

// Name implements Relay.
func (s *Stock) Name() string {
	if s.poll > 0 {
		return fmt.Sprintf("%s, poll %s", s.label, s.poll)
	}
	return s.label
}

// Table implements Relay.
func (s *Stock) Table() string { return s.table(stockTable) }

// Pending implements Relay.
func (s *Stock) Pending(ctx context.Context) (int64, error) { return s.pending(ctx) }

// Create implements Relay: watermill-sql's own tables, by its own subscriber.
func (s *Stock) Create(ctx context.Context) error {
	if err := s.create(ctx); err != nil {
		return err
	}
	subscriber, err := s.subscriber()
	if err != nil {
		return err
	}
	if err := subscriber.SubscribeInitialize(stockTopic); err != nil {
		return fmt.Errorf("create stock tables: %w", err)
	}
	return subscriber.Close()
}

func (s *Stock) subscriber() (*wsql.Subscriber, error) {
	subscriber, err := wsql.NewSubscriber(wsql.BeginnerFromPgx(s.pool), wsql.SubscriberConfig{
		SchemaAdapter: s.schema, OffsetsAdapter: s.offsets, PollInterval: s.poll,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("stock subscriber: %w", err)
	}
	return subscriber, nil
}

// Publish implements Relay, by watermill-sql's publisher within the forwarder's, which puts messages into envelopes.
func (s *Stock) Publish(tx pgx.Tx, topic string, messages ...*message.Message) error {
	publisher, err := s.publisher(wsql.TxFromPgx(tx))
	if err != nil {
		return err
	}
	return publisher.Publish(topic, messages...)
}

// PublishSQL is Publish for database/sql.
func (s *Stock) PublishSQL(tx *sql.Tx, topic string, messages ...*message.Message) error {
	publisher, err := s.publisher(wsql.TxFromStdSQL(tx))
	if err != nil {
		return err
	}
	return publisher.Publish(topic, messages...)
}

func (s *Stock) publisher(tx wsql.ContextExecutor) (message.Publisher, error) {
	publisher, err := wsql.NewPublisher(tx, wsql.PublisherConfig{SchemaAdapter: s.schema}, nil)
	if err != nil {
		return nil, fmt.Errorf("stock publisher: %w", err)
	}
	return forwarder.NewPublisher(publisher, forwarder.PublisherConfig{ForwarderTopic: stockTopic}), nil
}

// Run implements Relay.
func (s *Stock) Run(ctx context.Context, broker message.Publisher) error {
	subscriber, err := s.subscriber()
	if err != nil {
		return err
	}
	f, err := forwarder.NewForwarder(subscriber, broker, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: stockTopic})
	if err != nil {
		return fmt.Errorf("stock forwarder: %w", err)
	}
	return stopped(ctx, f.Run(ctx))
}
