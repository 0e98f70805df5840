package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"sync"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

const (
	// resendInterval is between a nack and the next delivery.
	resendInterval = 100 * time.Millisecond
	// initializeTimeout bounds what has no context.
	initializeTimeout = 30 * time.Second
)

// subscriber is watermill-sql's, with tables of ours. It has connections of its own, for as long as there are messages;
// publishers must not wait for them.
type subscriber struct {
	*wsql.Subscriber
	db             *stdsql.DB
	autoInitialize bool

	mu     sync.Mutex // watermill-sql's Close is not safe for concurrent use
	closed bool
}

func newSubscriber(s *settings) (*subscriber, error) {
	db := stdlib.OpenDB(*s.pool.ConnConfig)
	inner, err := wsql.NewSubscriber(db, wsql.SubscriberConfig{
		ConsumerGroup: s.Group, SchemaAdapter: schema, OffsetsAdapter: offsets,
		PollInterval: s.pollInterval, AckDeadline: &s.ackDeadline, ResendInterval: resendInterval,
	}, s.Logger)
	if err != nil {
		return nil, fmt.Errorf("sql: %w", err)
	}
	return &subscriber{Subscriber: inner, db: db, autoInitialize: s.autoInitialize}, nil
}

// SubscribeInitialize creates the topic's tables, if it may.
func (s *subscriber) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), initializeTimeout)
	defer cancel()
	return s.initialize(ctx, topic)
}

func (s *subscriber) initialize(ctx context.Context, topic string) error {
	if err := checkTopic(topic); err != nil || !s.autoInitialize {
		return err
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sql: %w", err)
	}
	defer func() { _ = conn.Close() }() // gives it back
	return conn.Raw(func(driver any) error {
		return createTables(ctx, driver.(*stdlib.Conn).Conn(), topic) //nolint:forcetypeassert // stdlib's database
	})
}

// Subscribe gives the group's messages until ctx is done or the subscriber is closed. The server has to be there; when it
// is away later, the subscriber waits for it.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := s.initialize(ctx, topic); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, broker.ErrClosed
	}
	return s.Subscriber.Subscribe(ctx, topic)
}

// Close ends the subscriptions and waits for them. It may be called twice.
func (s *subscriber) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.Subscriber.Close(); err != nil {
		return fmt.Errorf("sql: %w", err)
	}
	return s.db.Close()
}
