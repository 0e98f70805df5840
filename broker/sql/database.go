package sql

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/crew"
)

// database is an open one.
type database struct {
	settings    *settings
	publisher   *publisher
	subscribers crew.Subscribers
}

func open(ctx context.Context, s *settings) (*database, error) {
	pool, err := pgxpool.NewWithConfig(ctx, s.config)
	if err != nil {
		return nil, err
	}
	return &database{settings: s, publisher: &publisher{
		pool: pool, tables: s.tables, topics: &topics{pool: pool, tables: s.tables}, createTopics: s.createTopics,
	}}, nil
}

// Publisher gives the publisher.
func (b *database) Publisher() message.Publisher { return b.publisher }

// Subscriber makes one of the group.
func (b *database) Subscriber() (message.Subscriber, error) {
	return b.subscribers.Join(b.settings.Group, func() (message.Subscriber, error) {
		return newSubscriber(b.settings, b.publisher.topics)
	})
}

// Classify says what an error of the publisher means.
func (b *database) Classify(err error) outbox.FailureKind { return b.classify(err) }

// Ping asks the server.
func (b *database) Ping(ctx context.Context) error { return closedAs(b.publisher.pool.Ping(ctx)) }

// Close closes the subscribers first, for their handlers may publish.
func (b *database) Close() error {
	err := errors.Join(b.subscribers.Close(), b.publisher.Close())
	b.publisher.pool.Close() // it waits for what is under way
	return err
}
