package main

import (
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// addBilling adds the last link of the chain.
func addBilling(s *service) {
	s.router.AddConsumerHandler("bill", parcelsTopic, s.subscriber, s.bill)
}

func (s *service) bill(msg *message.Message) error {
	var parcel parcel
	if err := read(msg, &parcel); err != nil {
		return err
	}
	tx, err := transaction(msg)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(msg.Context(), `INSERT INTO chain.invoices (order_id, cents) VALUES ($1, $2)`, parcel.OrderID, parcel.Cents)
	s.faults.mistake(parcel) // its panic takes the invoice with it
	return err
}

// addDesk adds a service that keeps what no other could read.
func addDesk(s *service) {
	s.router.AddConsumerHandler("keep", poisonTopic, s.subscriber, func(msg *message.Message) error {
		tx, err := transaction(msg)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(msg.Context(), `INSERT INTO chain.poisoned (message_id, reason) VALUES ($1, $2)`,
			msg.UUID, msg.Metadata.Get(middleware.ReasonForPoisonedKey))
		return err
	})
}
