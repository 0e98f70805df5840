package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"gorm.io/gorm"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Invoice is made when an order arrives. Nothing keeps an order from having two, but the inbox.
type Invoice struct {
	Number  uint64 `gorm:"primaryKey"`
	OrderID string `gorm:"not null;index"`
	Cents   int64  `gorm:"not null"`
}

// TableName has the schema.
func (Invoice) TableName() string { return "gormshop.invoices" }

// Letter is written when a voucher arrives.
type Letter struct {
	Number uint64 `gorm:"primaryKey"`
	Code   string `gorm:"not null;index"`
}

// TableName has the schema.
func (Letter) TableName() string { return "gormshop.letters" }

// office is the service that makes them. Here it shares the shop's database; it could have its own.
type office struct {
	db     *gorm.DB
	copies atomic.Int64
}

func newRouter(db *sql.DB, b broker.Broker, o *office) (*message.Router, error) {
	subscriber, err := b.Subscriber()
	if err != nil {
		return nil, err
	}
	inbox, err := outbox.NewInbox(db, outbox.InboxConfig{
		Consumer:    "office",
		OnDuplicate: func(*message.Message) { o.copies.Add(1) },
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
	router.AddConsumerHandler("invoice", ordersTopic, subscriber, handle(o, func(tx *gorm.DB, order *Order) error {
		return tx.Create(&Invoice{OrderID: order.ID, Cents: order.Cents}).Error
	}))
	router.AddConsumerHandler("letter", vouchersTopic, subscriber, handle(o, func(tx *gorm.DB, voucher *Voucher) error {
		return tx.Create(&Letter{Code: voucher.Code}).Error
	}))
	return router, nil
}

// handle makes a handler of what is to be done in the inbox's transaction. It knows nothing of copies.
func handle[T any](o *office, do func(tx *gorm.DB, event *T) error) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		event := new(T)
		if err := json.Unmarshal(msg.Payload, event); err != nil {
			return fmt.Errorf("message %s: %w", msg.UUID, err)
		}
		tx, err := inTransaction(msg.Context(), o.db)
		if err != nil {
			return err
		}
		return do(tx, event)
	}
}

// inTransaction gives gorm in the inbox's transaction, which the inbox ends.
func inTransaction(ctx context.Context, db *gorm.DB) (*gorm.DB, error) {
	tx, ok := outbox.TxFromContext(ctx)
	if !ok {
		return nil, errors.New("there is no inbox around the handler")
	}
	session := db.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = tx
	return session, nil
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
