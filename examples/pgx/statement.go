package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// newRouter makes the service that keeps the statements. Here it shares the bank's database; it could have its own.
func newRouter(b *bank, broker broker.Broker) (*message.Router, error) {
	subscriber, err := broker.Subscriber()
	if err != nil {
		return nil, err
	}
	inbox, err := outbox.NewPgxInbox(b.pool, outbox.InboxConfig{
		Consumer:    "statements",
		OnDuplicate: func(*message.Message) { b.copies.Add(1) },
	}, nil)
	if err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	if err != nil {
		return nil, err
	}
	// Outermost first: each try is a transaction of its own, and the inbox goes last.
	retry := middleware.Retry{MaxRetries: 3, InitialInterval: 100 * time.Millisecond, ResetContextOnRetry: true}
	router.AddMiddleware(retry.Middleware, middleware.Timeout(time.Minute), middleware.Recoverer, inbox.Middleware)
	router.AddConsumerHandler("statement", topic, subscriber, keepStatement)
	return router, nil
}

// keepStatement adds an entry to its account's statement, by the inbox's transaction. It knows nothing of copies, and
// counts an entry that is not the next one of its account.
func keepStatement(msg *message.Message) error {
	var e entry
	if err := json.Unmarshal(msg.Payload, &e); err != nil {
		return fmt.Errorf("message %s: %w", msg.UUID, err)
	}
	tx, ok := outbox.PgxTxFromContext(msg.Context())
	if !ok {
		return errors.New("there is no inbox around the handler")
	}
	_, err := tx.Exec(msg.Context(), `
		INSERT INTO bank.statements AS s (account, cents, entries, disorder) VALUES ($1, $3, 1, ($2::int <> 1)::int)
		ON CONFLICT (account) DO UPDATE SET cents = s.cents + $3, entries = s.entries + 1,
			disorder = s.disorder + ($2::int <> s.entries + 1)::int`, e.Account, e.Number, e.Cents)
	return err
}

// twice delivers one message in five a second time, as brokers do after a fault. Your program does without.
type twice struct{ message.Publisher }

func (t twice) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := t.Publisher.Publish(topic, msg); err != nil {
			return err
		}
		if rand.IntN(5) == 0 {
			if err := t.Publisher.Publish(topic, msg); err != nil {
				return err
			}
		}
	}
	return nil
}
