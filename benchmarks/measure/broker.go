package measure

import (
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Broker is a stub broker: each message takes Delay, then the ledger notes it.
type Broker struct {
	Delay  time.Duration
	Ledger *Ledger
}

// Publish implements message.Publisher.
func (b Broker) Publish(_ string, messages ...*message.Message) error {
	for _, m := range messages {
		if b.Delay > 0 {
			time.Sleep(b.Delay)
		}
		b.Ledger.Record(m)
	}
	return nil
}

// Close implements message.Publisher.
func (Broker) Close() error { return nil }

// Counter is as good as no broker: it counts.
type Counter struct {
	target  int64
	count   atomic.Int64
	reached chan struct{}
}

// NewCounter makes a counter that knows how many messages are to come.
func NewCounter(target int) *Counter {
	return &Counter{target: int64(target), reached: make(chan struct{})}
}

// Publish implements message.Publisher.
func (c *Counter) Publish(_ string, messages ...*message.Message) error {
	for range messages {
		if c.count.Add(1) == c.target {
			close(c.reached)
		}
	}
	return nil
}

// Reached is closed once as many as expected have come.
func (c *Counter) Reached() <-chan struct{} { return c.reached }

// Count is how many have come.
func (c *Counter) Count() int64 { return c.count.Load() }

// Close implements message.Publisher.
func (*Counter) Close() error { return nil }
