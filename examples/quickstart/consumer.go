package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// consumer reads what the broker delivers, and keeps a ledger of it.
type consumer struct {
	messages <-chan *message.Message
	ended    chan struct{}

	mu     sync.Mutex
	ledger ledger
}

// ledger is what has arrived.
type ledger struct {
	deliveries map[string]int // by order
	last       map[int]int    // the highest number so far, by customer
	outOfOrder int
	duplicates int
	latest     time.Time // when the last new order arrived
	unreadable error
}

func startConsumer(ctx context.Context, subscriber message.Subscriber) (*consumer, error) {
	messages, err := subscriber.Subscribe(context.WithoutCancel(ctx), topic) // until the broker is closed
	if err != nil {
		return nil, err
	}
	c := &consumer{
		messages: messages,
		ended:    make(chan struct{}),
		ledger:   ledger{deliveries: map[string]int{}, last: map[int]int{}},
	}
	go c.consume()
	return c, nil
}

func (c *consumer) consume() {
	defer close(c.ended)
	for msg := range c.messages {
		c.mu.Lock()
		c.ledger.enter(msg)
		c.mu.Unlock()
		msg.Ack()
	}
}

// arrived is the number of orders of which the consumer knows.
func (c *consumer) arrived() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ledger.deliveries)
}

// close returns what has arrived, once nothing more can.
func (c *consumer) close() ledger {
	<-c.ended
	return c.ledger
}

// enter notes a delivery. Messages come at least once, so a copy of a known order is a duplicate, whatever came between.
// Of those that are new, each must carry its customer's next number.
func (l *ledger) enter(msg *message.Message) {
	var o order
	if err := json.Unmarshal(msg.Payload, &o); err != nil {
		l.unreadable = errors.Join(l.unreadable, fmt.Errorf("message %s: %w", msg.UUID, err))
		return
	}
	l.deliveries[o.ID]++
	if l.deliveries[o.ID] > 1 {
		l.duplicates++
		return
	}
	if o.Number != l.last[o.Customer]+1 {
		l.outOfOrder++
	}
	l.last[o.Customer] = max(l.last[o.Customer], o.Number)
	l.latest = time.Now()
}
