package sql

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/crew"
)

// database is an open one.
type database struct {
	settings    settings
	publisher   *publisher
	subscribers crew.Subscribers
}

func open(s settings) (*database, error) {
	pool, err := pgxpool.NewWithConfig(context.Background(), s.pool)
	if err != nil {
		return nil, fmt.Errorf("sql: %w", err)
	}
	p := &publisher{pool: pool, autoInitialize: s.autoInitialize}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return &database{settings: s, publisher: p}, nil
}

// Publisher gives the publisher, an outbox.BatchPublisher.
func (d *database) Publisher() message.Publisher { return d.publisher }

// Subscriber makes one that belongs to the group.
func (d *database) Subscriber() (message.Subscriber, error) {
	return d.subscribers.Join(d.settings.Group, func() (message.Subscriber, error) { return newSubscriber(&d.settings) })
}

// Classify says what an error of the publisher means.
func (d *database) Classify(err error) outbox.FailureKind { return classify(err) }

// Ping asks for an answer.
func (d *database) Ping(ctx context.Context) error {
	if d.publisher.ctx.Err() != nil {
		return broker.ErrClosed
	}
	if err := d.publisher.pool.Ping(ctx); err != nil {
		return fmt.Errorf("sql: %w", err)
	}
	return nil
}

// Close closes the publisher and the subscribers.
func (d *database) Close() error {
	return errors.Join(d.publisher.Close(), d.subscribers.Close())
}
