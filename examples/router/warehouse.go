package main

import (
	"encoding/json"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// parcel is the payload of the message that the warehouse produces.
type parcel struct {
	OrderID string `json:"order_id"`
	Cents   int64  `json:"cents"`
}

// addWarehouse adds the first link of the chain. The publisher is nil: what the handler returns goes into the outbox, in
// the inbox's transaction, and from there to parcelsTopic.
func addWarehouse(s *service) {
	s.router.AddHandler("ship", ordersTopic, s.subscriber, parcelsTopic, nil, s.ship)
}

// ship knows nothing of copies, and a try that fails leaves nothing behind: no parcel, no message, no trace in the inbox.
func (s *service) ship(msg *message.Message) ([]*message.Message, error) {
	var order order
	if err := read(msg, &order); err != nil {
		return nil, err
	}
	tx, err := transaction(msg)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(msg.Context(), `INSERT INTO chain.parcels (order_id) VALUES ($1)`, order.ID); err != nil {
		return nil, err
	}
	if err := s.faults.printer(order); err != nil {
		return nil, err // takes the parcel with it
	}
	payload, err := json.Marshal(parcel{OrderID: order.ID, Cents: order.Cents})
	if err != nil {
		return nil, err
	}
	sent := message.NewMessage("", payload)
	outbox.SetKey(sent, outbox.Key(msg)) // a customer's messages stay in order
	return []*message.Message{sent}, nil
}
