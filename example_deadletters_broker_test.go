package outbox_test

import (
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// choosyBroker refuses for good what has umlauts, until it is repaired, and keeps what it takes by key.
type choosyBroker struct {
	mu       sync.Mutex
	repaired bool
	taken    map[string][]string
}

func (b *choosyBroker) Publish(_ string, messages ...*message.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, msg := range messages {
		if string(msg.Payload) == "2: für später" && !b.repaired {
			return outbox.Permanent(errors.New("umlauts are not supported"))
		}
		if b.taken == nil {
			b.taken = map[string][]string{}
		}
		b.taken[outbox.Key(msg)] = append(b.taken[outbox.Key(msg)], string(msg.Payload))
	}
	return nil
}

func (b *choosyBroker) Close() error { return nil }

func (b *choosyBroker) repair() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.repaired = true
}
