package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const (
	orders = 60 // that are kept
	tables = `
	CREATE SCHEMA IF NOT EXISTS chain;
	CREATE TABLE IF NOT EXISTS chain.orders   (id text PRIMARY KEY, cents bigint NOT NULL);
	CREATE TABLE IF NOT EXISTS chain.parcels  (order_id text NOT NULL);
	CREATE TABLE IF NOT EXISTS chain.invoices (order_id text NOT NULL, cents bigint NOT NULL);
	CREATE TABLE IF NOT EXISTS chain.poisoned (message_id text NOT NULL, reason text NOT NULL);`
)

// order is the payload of the message that begins the chain.
type order struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	Cents  int64  `json:"cents"`
}

var errDeclined = errors.New("the card was declined")

// shop takes the orders.
type shop struct {
	db  *sql.DB
	run string // begins the ids of this run's orders
}

func newShop(db *sql.DB) *shop { return &shop{db: db, run: rand.Text()[:6]} }

// trade places orders, one in six of which is declined, and publishes one message that nobody can read.
func (s *shop) trade(ctx context.Context) error {
	for n := range orders * 6 / 5 {
		order := order{ID: fmt.Sprintf("%s-%02d", s.run, n), Number: n, Cents: int64(100 * (n + 1))}
		payload, err := json.Marshal(order)
		if err != nil {
			return err
		}
		err = s.place(ctx, order, message.NewMessageWithContext(ctx, order.ID, payload), n%6 == 2)
		if err != nil && !errors.Is(err, errDeclined) {
			return err
		}
	}
	poison := message.NewMessageWithContext(ctx, s.run+"-poison", []byte("of an older program"))
	return s.publish(s.db, poison)
}

// place writes an order and its message in one transaction.
func (s *shop) place(ctx context.Context, order order, msg *message.Message, declined bool) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit: nothing
	if _, err := tx.ExecContext(ctx, `INSERT INTO chain.orders (id, cents) VALUES ($1, $2)`, order.ID, order.Cents); err != nil {
		return err
	}
	outbox.SetKey(msg, fmt.Sprintf("%s-customer-%d", s.run, order.Number%7))
	if err := s.publish(tx, msg); err != nil {
		return err
	}
	if declined {
		return errDeclined // the rollback takes the message with it
	}
	return tx.Commit()
}

// publish writes a message into the outbox; on the database itself it is a transaction of its own.
func (s *shop) publish(tx outbox.SQLExecutor, msg *message.Message) error {
	publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
	if err != nil {
		return err
	}
	return publisher.Publish(ordersTopic, msg)
}
