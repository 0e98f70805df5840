package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const (
	ordersTopic   = "gorm.orders"
	vouchersTopic = "gorm.vouchers"
	attempts      = 90 // orders that customers try to make
)

// Order is a row, and the payload of the message about it.
type Order struct {
	ID       string `gorm:"primaryKey" json:"id"`
	Customer string `gorm:"not null"   json:"customer"`
	Cents    int64  `gorm:"not null"   json:"cents"`
}

// TableName has the schema, so that search_path does not matter.
func (Order) TableName() string { return "gormshop.orders" }

// Voucher is what some customers get with their order.
type Voucher struct {
	Code    string `gorm:"primaryKey" json:"code"`
	OrderID string `gorm:"not null"   json:"order_id"`
}

// TableName has the schema.
func (Voucher) TableName() string { return "gormshop.vouchers" }

var errDeclined = errors.New("the card was declined")

// shop takes orders.
type shop struct {
	db        *gorm.DB
	publisher *outbox.Publisher // one for all transactions
	run       string            // begins the ids of this run's orders

	declined, refused int64
}

// newShop's zero config can't be wrong, or the first publish would say so.
func newShop(db *gorm.DB) *shop {
	publisher, _ := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	return &shop{db: db, publisher: publisher, run: rand.Text()[:6]}
}

// publish writes a message into the outbox, in gorm's transaction.
//
// It is tx.Statement.ConnPool that has the transaction. tx.ConnPool is the database: a message written with that would
// stay when the transaction is rolled back.
func (s *shop) publish(tx *gorm.DB, topic, key string, event any) error {
	payload, err := json.Marshal(event)
	if err != nil {
		return err
	}
	msg := message.NewMessageWithContext(tx.Statement.Context, "", payload)
	outbox.SetKey(msg, key)
	return s.publisher.WithTx(tx.Statement.ConnPool).Publish(topic, msg)
}

// place takes an order. Its voucher is a transaction within the transaction: if that fails, it leaves nothing behind,
// neither row nor message, and the order goes on.
func (s *shop) place(ctx context.Context, order Order, code string, declined bool) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&order).Error; err != nil {
			return err
		}
		if err := s.publish(tx, ordersTopic, order.Customer, order); err != nil {
			return err
		}
		err := tx.Transaction(func(tx *gorm.DB) error {
			voucher := Voucher{Code: code, OrderID: order.ID}
			if err := s.publish(tx, vouchersTopic, order.Customer, voucher); err != nil {
				return err
			}
			return tx.Create(&voucher).Error
		})
		if errors.Is(err, gorm.ErrDuplicatedKey) {
			s.refused++ // the code was used before
		} else if err != nil {
			return err
		}
		if declined {
			return errDeclined
		}
		return nil
	})
}

// trade tries to place orders: one card in six is declined, one voucher in five used before.
func (s *shop) trade(ctx context.Context) error {
	for n := range attempts {
		order := Order{ID: fmt.Sprintf("%s-%02d", s.run, n), Customer: fmt.Sprint("customer ", n%7), Cents: int64(1_000 + n)}
		code := fmt.Sprintf("%s-%02d", s.run, n/5*5+min(n%5, 3))
		err := s.place(ctx, order, code, n%6 == 5)
		if errors.Is(err, errDeclined) {
			s.declined++
		} else if err != nil {
			return err
		}
	}
	return nil
}
