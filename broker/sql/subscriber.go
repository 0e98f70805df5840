package sql

import (
	"context"
	databasesql "database/sql"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// subscriber is watermill-sql's, with tables made as the publisher does.
type subscriber struct {
	*wsql.Subscriber
	settings *settings
	topics   *topics
	db       *databasesql.DB
	ctx      context.Context // done after Close
	cancel   context.CancelFunc

	mu     sync.Mutex // no Subscribe while Close begins
	closed bool
	once   sync.Once
	err    error // Close's
}

// closeGrace is what a transaction may take to commit.
const closeGrace = 2 * time.Second

// createTimeout bounds the making of a topic's tables.
const createTimeout = 30 * time.Second

func newSubscriber(s *settings, topics *topics) (*subscriber, error) {
	// Not of the publisher's pool: a subscription keeps its connection while it handles, and while it waits for its turn.
	db := stdlib.OpenDB(*s.config.ConnConfig)
	inner, err := wsql.NewSubscriber(db, wsql.SubscriberConfig{
		ConsumerGroup: s.Group, AckDeadline: &s.ackDeadline, ResendInterval: s.resendInterval,
		SchemaAdapter: s.tables.schemaAdapter(s.batchSize), OffsetsAdapter: s.tables.offsetsAdapter(),
		BackoffManager: backoff{poll: s.pollInterval},
	}, s.Logger)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	result := &subscriber{Subscriber: inner, settings: s, topics: topics, db: db}
	result.ctx, result.cancel = context.WithCancel(context.Background())
	return result, nil
}

// Subscribe makes the topic's tables, if it may.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	context.AfterFunc(ctx, func() { stop() })
	messages, err := s.subscribe(ctx, topic)
	if err != nil {
		cancel()
		if s.ctx.Err() != nil {
			return nil, broker.ErrClosed
		}
	}
	return messages, err
}

func (s *subscriber) subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := s.makeTables(ctx, topic); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, broker.ErrClosed
	}
	return s.Subscriber.Subscribe(ctx, topic)
}

// SubscribeInitialize makes the topic's tables, if it may.
func (s *subscriber) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	defer cancel()
	return s.makeTables(ctx, topic)
}

func (s *subscriber) makeTables(ctx context.Context, topic string) error {
	if err := validateTopic(topic); err != nil || !s.settings.createTopics {
		return err
	}
	return closedAs(s.topics.createAll(ctx, topic))
}

// Close ends the subscriptions, and waits for them. What is not acked then is delivered again. It may be called twice.
func (s *subscriber) Close() error {
	s.once.Do(func() {
		// One that waits for its turn knows nothing of a Close. Its context is the last resort, for with it goes the
		// transaction, and what was acked in it.
		giveUp := time.AfterFunc(closeGrace, s.cancel)
		defer giveUp.Stop()
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		err := s.Subscriber.Close()
		s.cancel()
		s.err = errors.Join(err, s.db.Close())
	})
	return s.err
}

// backoff is watermill-sql's, but that it knows what happens when the subscribers of a group take turns: the one who waited
// is told that the row has changed, and begins again.
type backoff struct{ poll time.Duration }

// HandleError gives the time until the next look.
func (b backoff) HandleError(logger watermill.LoggerAdapter, noMsg bool, err error) time.Duration {
	switch {
	case err != nil && class(sqlState(err)) == transactionRollback:
		return 0
	case err != nil:
		logger.Error("sql: looking for messages", err, watermill.LogFields{"wait_time": retryWait})
		return retryWait
	case noMsg:
		return b.poll
	}
	return 0
}

// retryWait is the time after an error until the next look.
const retryWait = time.Second
