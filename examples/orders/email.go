package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/all"
)

const emailsTopic = "shop.emails"

// runEmail writes and sends an email about each order until ctx is done: then what is in hand may end. Start as many as you
// like; they share the work.
//
// What an inbox makes happen once is what can be rolled back: rows, and messages. An email can't be. So confirm, which has
// the effects in the database, does not send it; it returns a command. And send, which has the effect outside, does nothing
// else: when it fails half way, only that is done again, under the same id.
func runEmail(ctx context.Context, s settings, mailer mailer, onDuplicate ...func(*message.Message)) (err error) {
	logger := watermill.NewSlogLogger(s.logger)
	db, closeDB, err := s.openDB(ctx, "email")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	b, err := all.Open(ctx, s.brokerURL, broker.Options{Group: "emails", Logger: logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	subscriber, err := b.Subscriber()
	if err != nil {
		return err
	}
	config := outbox.InboxConfig{Consumer: "emails"}
	for _, f := range onDuplicate {
		config.OnDuplicate = f
	}
	inbox, err := outbox.NewInbox(db, config, logger)
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 30 * time.Second}, logger)
	if err != nil {
		return err
	}
	// Outermost first: each try is a transaction of its own, and the inbox goes last. What still fails is not acknowledged,
	// and comes again.
	retry := middleware.Retry{MaxRetries: 5, InitialInterval: 100 * time.Millisecond, ResetContextOnRetry: true, Logger: logger}
	router.AddMiddleware(retry.Middleware, middleware.Timeout(20*time.Second), middleware.Recoverer, inbox.Middleware)
	router.AddHandler("confirm", ordersTopic, subscriber, emailsTopic, nil, confirm) // nil: through the outbox
	router.AddConsumerHandler("send", emailsTopic, subscriber, sendBy(mailer))

	stop := context.AfterFunc(ctx, func() { _ = router.Close() })
	defer stop()
	return router.Run(context.WithoutCancel(ctx))
}

// confirm notes that an email is due, and returns the command to send it: both in the inbox's transaction.
func confirm(msg *message.Message) ([]*message.Message, error) {
	var o order
	if err := json.Unmarshal(msg.Payload, &o); err != nil {
		return nil, fmt.Errorf("message %s: %w", msg.UUID, err)
	}
	err := execute(msg.Context(), `INSERT INTO shop.emails (order_id, customer) VALUES ($1, $2)`, o.ID, o.Customer)
	if err != nil {
		return nil, err
	}
	payload, err := json.Marshal(email{OrderID: o.ID, To: o.Customer, Text: fmt.Sprintf("Thank you for your order %s.", o.ID)})
	if err != nil {
		return nil, err
	}
	command := message.NewMessage("", payload)
	outbox.SetKey(command, o.Customer)
	return []*message.Message{command}, nil
}

// sendBy sends the email. Every try and every copy of the command has the same UUID, by which the mailer knows what it has
// sent already: so an answer that was lost, or a crash before the commit, makes no second email. The inbox spares the calls.
func sendBy(mailer mailer) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		var e email
		if err := json.Unmarshal(msg.Payload, &e); err != nil {
			return fmt.Errorf("message %s: %w", msg.UUID, err)
		}
		if err := mailer.Send(msg.Context(), msg.UUID, e); err != nil {
			return err
		}
		return execute(msg.Context(), `UPDATE shop.emails SET sent_at = now() WHERE order_id = $1`, e.OrderID)
	}
}

// execute executes a statement in the inbox's transaction.
func execute(ctx context.Context, statement string, args ...any) error {
	tx, ok := outbox.TxFromContext(ctx)
	if !ok {
		return errors.New("there is no inbox around the handler")
	}
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}
