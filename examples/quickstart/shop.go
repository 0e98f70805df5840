package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const (
	topic     = "orders"
	customers = 200
	clerks    = 16 // take orders side by side, each in a transaction
	declined  = 10 // one card in so many is declined
	regular   = 7  // this customer makes one order in twenty
)

// order is a row of the shop's, and the payload of the message about it.
type order struct {
	ID       string `json:"id"`
	Customer int    `json:"customer"`
	Number   int    `json:"number"` // the customer's first, second, third, … order
	Cents    int    `json:"cents"`
}

var errDeclined = errors.New("the card was declined")

// shop takes orders until it has taken enough, or its time is over.
type shop struct {
	db        *sql.DB
	publisher *outbox.Publisher
	options   options

	opened     time.Time
	begun      atomic.Int64
	committed  atomic.Int64
	rolledBack atomic.Int64
}

func openShop(d *database, options options) (*shop, error) {
	// One publisher for all transactions: WithTx costs next to nothing.
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{Schema: d.outbox()}, nil)
	if err != nil {
		return nil, err
	}
	return &shop{db: stdlib.OpenDBFromPool(d.pool), publisher: publisher, options: options, opened: time.Now()}, nil
}

// trade returns when the shop has closed.
func (s *shop) trade(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range clerks {
		group.Go(func() error {
			for s.begun.Add(1) <= int64(s.options.orders) && time.Since(s.opened) < s.options.duration {
				switch err := s.take(ctx); {
				case err == nil:
					s.committed.Add(1)
				case errors.Is(err, errDeclined):
					s.rolledBack.Add(1)
				default:
					return fmt.Errorf("taking an order: %w", err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// take takes one order: the business and its message in one transaction.
func (s *shop) take(ctx context.Context) error {
	o := order{ID: watermill.NewUUID(), Customer: 1 + rand.IntN(customers), Cents: 100 + rand.IntN(10_000)}
	if rand.IntN(20) == 0 {
		o.Customer = regular
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit: nothing

	// It locks the customer, so that the orders of one customer are made one after the other. Their messages keep that
	// order all the way to the consumer.
	err = tx.QueryRowContext(ctx, `UPDATE customers SET orders = orders + 1 WHERE id = $1 RETURNING orders`, o.Customer).Scan(&o.Number)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO orders (id, customer, number, cents) VALUES ($1, $2, $3, $4)`,
		o.ID, o.Customer, o.Number, o.Cents)
	if err != nil {
		return err
	}
	if err := s.announce(ctx, tx, o); err != nil {
		return err
	}
	if rand.IntN(declined) == 0 {
		return errDeclined // the rollback takes the message with it
	}
	return tx.Commit()
}

// announce writes the message about an order into the outbox, with the order's transaction.
func (s *shop) announce(ctx context.Context, tx *sql.Tx, o order) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	msg := message.NewMessageWithContext(ctx, o.ID, payload)
	outbox.SetKey(msg, keyOf(o.Customer))
	return s.publisher.WithTx(tx).Publish(topic, msg)
}

func keyOf(customer int) string { return "customer-" + strconv.Itoa(customer) }

func (s *shop) close() error { return s.db.Close() }

// progress is how much of the trading is over, from 0 to 1.
func (s *shop) progress() float64 {
	orders := float64(s.committed.Load()+s.rolledBack.Load()) / float64(s.options.orders)
	hours := float64(time.Since(s.opened)) / float64(s.options.duration)
	return min(max(orders, hours), 1)
}
