package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/mail"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const ordersTopic = "shop.orders"

// order is a row, what the API takes and gives, and the payload of the event about it.
type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"` // an email address
	Cents    int64  `json:"cents"`
}

var (
	errDeclined = errors.New("the card was declined")
	errConflict = errors.New("another order has this idempotency key")
)

// validate says what is wrong with an order.
func (o order) validate() error {
	if _, err := mail.ParseAddress(o.Customer); err != nil {
		return errors.New("customer must be an email address")
	}
	if o.Cents <= 0 {
		return errors.New("cents must be positive")
	}
	return nil
}

// orders keeps them.
type orders struct {
	db        *sql.DB
	publisher *outbox.Publisher // one for all transactions
}

func newOrders(db *sql.DB) (*orders, error) {
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	return &orders{db, publisher}, err
}

// place writes an order and its event in one transaction: both are there after it, or neither. An order that is there
// already, because the client did not hear of it and asks again, is left as it is, and has had its event.
func (s *orders) place(ctx context.Context, o order) (created bool, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit: nothing

	result, err := tx.ExecContext(ctx, `INSERT INTO shop.orders (id, customer, cents) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO NOTHING`, o.ID, o.Customer, o.Cents)
	if err != nil {
		return false, err
	}
	if inserted, err := result.RowsAffected(); err != nil || inserted == 0 {
		return false, errors.Join(err, s.compare(ctx, tx, o))
	}
	if err := s.announce(ctx, tx, o); err != nil {
		return false, err
	}
	if err := charge(o); err != nil {
		return false, err // the rollback takes the event with it
	}
	return true, tx.Commit()
}

// announce writes the event into the outbox.
func (s *orders) announce(ctx context.Context, tx *sql.Tx, o order) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	msg := message.NewMessageWithContext(ctx, o.ID, payload)
	outbox.SetKey(msg, o.Customer) // a customer's orders arrive in order
	return s.publisher.WithTx(tx).Publish(ordersTopic, msg)
}

// compare says whether the order that is there is the same.
func (s *orders) compare(ctx context.Context, tx *sql.Tx, o order) error {
	known := order{ID: o.ID}
	err := tx.QueryRowContext(ctx, `SELECT customer, cents FROM shop.orders WHERE id = $1`, o.ID).Scan(&known.Customer, &known.Cents)
	if err == nil && known != o {
		err = errConflict
	}
	return err
}

// find gives an order and whether its email was sent, or sql.ErrNoRows.
func (s *orders) find(ctx context.Context, id string) (o order, emailed bool, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT id, customer, cents, EXISTS (SELECT FROM shop.emails WHERE order_id = id AND sent_at IS NOT NULL)
		FROM shop.orders WHERE id = $1`, id).Scan(&o.ID, &o.Customer, &o.Cents, &emailed)
	return o, emailed, err
}

// charge stands for a rule of the business that is only known at the end. A call of a bank would be an effect outside, and
// its place not here: see email.go.
func charge(o order) error {
	if o.Cents > 100_000 {
		return errDeclined
	}
	return nil
}
