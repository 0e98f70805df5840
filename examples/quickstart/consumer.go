package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// consumer books the orders that the broker delivers, in the same database for brevity. Messages come at least once; its
// inbox lets each take effect once.
type consumer struct {
	router *message.Router
	close  func() error // lets what is being handled end; a second time it does nothing

	acknowledged atomic.Int64
	suppressed   atomic.Int64 // copies that the inbox knew
}

func startConsumer(ctx context.Context, d *database, subscriber message.Subscriber) (*consumer, error) {
	pool, err := d.connect(ctx, "consumer", partitions)
	if err != nil {
		return nil, err
	}
	c := &consumer{}
	inbox, err := outbox.NewPgxInbox(pool, outbox.InboxConfig{
		Schema:      d.outbox(),
		OnDuplicate: func(*message.Message) { c.suppressed.Add(1) },
	}, nil)
	if err != nil {
		return nil, err
	}
	if c.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: patience}, nil); err != nil {
		return nil, err
	}
	// The order matters: each try is a transaction of its own, and the inbox goes last.
	retry := middleware.Retry{MaxRetries: 3, InitialInterval: 10 * time.Millisecond, ResetContextOnRetry: true}
	c.router.AddMiddleware(c.count, retry.Middleware, middleware.Timeout(patience), middleware.Recoverer, inbox.Middleware)
	c.router.AddConsumerHandler("bookkeeping", topic, subscriber, book)
	ended := make(chan error, 1)
	go func() { ended <- c.router.Run(context.WithoutCancel(ctx)) }() // until close
	<-c.router.Running()
	c.close = sync.OnceValue(func() error {
		defer pool.Close()
		return errors.Join(c.router.Close(), <-ended)
	})
	return c, nil
}

// count counts what is acknowledged.
func (c *consumer) count(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := h(msg)
		if err == nil {
			c.acknowledged.Add(1)
		}
		return produced, err
	}
}

// book is the handler. It uses the inbox's transaction and knows nothing of copies: without the inbox they would be booked
// like any other order.
func book(msg *message.Message) error {
	var o order
	if err := json.Unmarshal(msg.Payload, &o); err != nil {
		return fmt.Errorf("message %s: %w", msg.UUID, err)
	}
	ctx := msg.Context()
	tx, ok := outbox.PgxTxFromContext(ctx)
	if !ok {
		return errors.New("there is no inbox around the handler")
	}
	if _, err := tx.Exec(ctx, `INSERT INTO bookings (order_id, customer, number) VALUES ($1, $2, $3)`, o.ID, o.Customer, o.Number); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE totals SET orders = orders + 1, cents = cents + $2 WHERE customer = $1`, o.Customer, o.Cents)
	return err
}

// arrived is the number of orders that were booked.
func (c *consumer) arrived() int { return int(c.acknowledged.Load() - c.suppressed.Load()) }
