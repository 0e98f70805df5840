package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

const (
	ordersTopic  = "chain.orders"
	parcelsTopic = "chain.parcels"
	poisonTopic  = "chain.poison"
)

// errUnreadable is what no further try will mend.
var errUnreadable = errors.New("the payload can't be read")

// service is a router with an inbox.
type service struct {
	router     *message.Router
	subscriber message.Subscriber
	faults     *faults
}

// serve runs a service until ctx is done.
func serve(ctx context.Context, name string, db *sql.DB, faults *faults, addHandlers func(*service)) (err error) {
	b, err := openBroker(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	s, err := newService(name, db, b, faults)
	if err != nil {
		return err
	}
	addHandlers(s)
	return s.router.Run(ctx)
}

func newService(name string, db *sql.DB, b broker.Broker, faults *faults) (*service, error) {
	subscriber, err := b.Subscriber()
	if err != nil {
		return nil, err
	}
	inbox, err := outbox.NewInbox(db, outbox.InboxConfig{
		Consumer:    name, // several services share this database
		OnDuplicate: func(*message.Message) { faults.copies.Add(1) },
	}, nil)
	if err != nil {
		return nil, err
	}
	// Only what is unreadable goes to the poison queue. With all errors, an outage of the database would send good messages
	// there; so they are not acknowledged, and come again.
	unreadable := func(err error) bool { return errors.Is(err, errUnreadable) }
	poisonQueue, err := middleware.PoisonQueueWithFilter(b.Publisher(), poisonTopic, unreadable)
	if err != nil {
		return nil, err
	}
	retry := middleware.Retry{
		MaxRetries:          5,
		InitialInterval:     20 * time.Millisecond, // rather a second, in your program
		Multiplier:          2,
		ShouldRetry:         func(params middleware.RetryParams) bool { return !unreadable(params.Err) },
		ResetContextOnRetry: true, // or a try after a timeout could not succeed
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, nil)
	if err != nil {
		return nil, err
	}
	// The one right order, outermost first: each try is bounded, recovered from, and a transaction of its own.
	router.AddMiddleware(poisonQueue, keepContext,
		retry.Middleware, middleware.Timeout(time.Minute), middleware.Recoverer, inbox.Middleware)
	return &service{router: router, subscriber: subscriber, faults: faults}, nil
}

// keepContext gives a message back its context, which Timeout has ended: PoisonQueue publishes with that, and publishers that
// heed it, as many do, would refuse to.
func keepContext(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		defer msg.SetContext(msg.Context())
		return h(msg)
	}
}

// transaction gives the inbox's, in which a message is handled.
func transaction(msg *message.Message) (*sql.Tx, error) {
	tx, ok := outbox.TxFromContext(msg.Context())
	if !ok {
		return nil, errors.New("there is no inbox around the handler")
	}
	return tx, nil
}

// read reads a message's payload.
func read(msg *message.Message, event any) error {
	if err := json.Unmarshal(msg.Payload, event); err != nil {
		return fmt.Errorf("message %s: %w: %w", msg.UUID, errUnreadable, err)
	}
	return nil
}
