package relay

import (
	"context"
	"database/sql"
	"fmt"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/sqlv4"
)

// Subscribed is a table that consumers subscribe to, with no forwarder and no broker between.
type Subscribed interface {
	Relay
	// Subscriber makes one that takes so many messages at a time. It can be closed on its own.
	Subscriber(batch int) (message.Subscriber, error)
}

// OursSubscribed is this library's table under watermill-sql v4's subscriber.
type OursSubscribed struct {
	*Ours
	db *sql.DB
}

// NewOursSubscribed uses the pool by way of database/sql.
func NewOursSubscribed(place Place) (*OursSubscribed, error) {
	o, err := NewOurs(place, "watermill-sql v4", outbox.ForwarderConfig{Schema: outbox.Schema{TopicIndex: true, NoDoorbell: true}})
	if err != nil {
		return nil, err
	}
	return &OursSubscribed{o, stdlib.OpenDBFromPool(place.pool)}, nil
}

// Subscriber implements Subscribed.
func (o *OursSubscribed) Subscriber(batch int) (message.Subscriber, error) {
	s, err := wsql.NewSubscriber(wsql.BeginnerFromStdSQL(o.db), wsql.SubscriberConfig{
		SchemaAdapter: sqlv4.SchemaAdapter{Schema: o.schema, BatchSize: batch}, OffsetsAdapter: sqlv4.OffsetsAdapter{Schema: o.schema},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("our subscriber: %w", err)
	}
	return s, nil
}

// Drop implements Relay.
func (o *OursSubscribed) Drop(ctx context.Context) error {
	_ = o.db.Close() // the pool stays
	return o.Ours.Drop(ctx)
}

// StockSubscribed is watermill-sql v4's queue schema under its own subscriber. Payloads are bytes, as they are in ours.
type StockSubscribed struct {
	*Stock
	db *sql.DB
}

// NewStockSubscribed uses the pool by way of database/sql.
func NewStockSubscribed(place Place) *StockSubscribed {
	s := NewStockQueue(place, 0, 0)
	s.label = "watermill-sql v4, queue"
	s.schema = stockBytes(s, 0)
	return &StockSubscribed{s, stdlib.OpenDBFromPool(place.pool)}
}

func stockBytes(s *Stock, batch int) wsql.PostgreSQLQueueSchema {
	return wsql.PostgreSQLQueueSchema{
		SubscribeBatchSize: batch, GenerateMessagesTableName: func(string) string { return s.Table() },
		GeneratePayloadType: func(string) string { return "BYTEA" },
	}
}

// Publish implements Relay, without the envelope that its forwarder would need.
func (s *StockSubscribed) Publish(tx pgx.Tx, topic string, messages ...*message.Message) error {
	publisher, err := wsql.NewPublisher(wsql.TxFromPgx(tx), wsql.PublisherConfig{SchemaAdapter: s.schema}, nil)
	if err != nil {
		return fmt.Errorf("stock publisher: %w", err)
	}
	return publisher.Publish(topic, messages...)
}

// Subscriber implements Subscribed.
func (s *StockSubscribed) Subscriber(batch int) (message.Subscriber, error) {
	subscriber, err := wsql.NewSubscriber(wsql.BeginnerFromStdSQL(s.db), wsql.SubscriberConfig{
		SchemaAdapter: stockBytes(s.Stock, batch), OffsetsAdapter: s.offsets,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("stock subscriber: %w", err)
	}
	return subscriber, nil
}

// Drop implements Relay.
func (s *StockSubscribed) Drop(ctx context.Context) error {
	_ = s.db.Close() // the pool stays
	return s.Stock.Drop(ctx)
}
