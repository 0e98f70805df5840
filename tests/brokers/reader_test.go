package brokers

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// reader consumes a topic and notes what it gets.
type reader struct {
	mu     sync.Mutex
	first  map[string][]string // by key: payloads as they came for the first time
	times  map[string]int      // by uuid
	refuse map[string]bool     // payloads that are nacked, once
	odd    []string            // what no message of ours looks like
}

// read subscribes a group to a topic.
func read(t testing.TB, b broker.Broker, topic string, refuse ...string) *reader {
	t.Helper()
	subscriber, err := b.Subscriber()
	require.NoError(t, err)
	if initializer, ok := subscriber.(message.SubscribeInitializer); ok {
		require.NoError(t, initializer.SubscribeInitialize(topic))
	}
	messages, err := subscriber.Subscribe(context.WithoutCancel(t.Context()), topic)
	require.NoError(t, err)
	r := &reader{first: map[string][]string{}, times: map[string]int{}, refuse: map[string]bool{}}
	for _, payload := range refuse {
		r.refuse[payload] = true
	}
	go func() {
		for msg := range messages {
			if r.take(msg) {
				msg.Ack()
			} else {
				msg.Nack()
			}
		}
	}()
	return r
}

// take notes a message, and says whether it is taken.
func (r *reader) take(msg *message.Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	payload := string(msg.Payload)
	if r.refuse[payload] {
		delete(r.refuse, payload)
		return false
	}
	if msg.Metadata.Get("note") != "naïve → "+payload {
		r.odd = append(r.odd, fmt.Sprintf("%s %v", payload, msg.Metadata))
	}
	if r.times[msg.UUID]++; r.times[msg.UUID] == 1 {
		key := outbox.Key(msg)
		r.first[key] = append(r.first[key], payload)
	}
	return true
}

// got is the number of different messages.
func (r *reader) got() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.times)
}

// deliveries is the number of messages, copies counted.
func (r *reader) deliveries() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, times := range r.times {
		n += times
	}
	return n
}

// requireInOrder says that each key's messages came, all of them, in their order, and nothing else.
func (r *reader) requireInOrder(t testing.TB, written map[string][]string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.odd)
	require.Empty(t, r.refuse, "what was nacked came again")
	require.Len(t, r.first, len(written))
	for key, want := range written {
		if key == "" {
			require.ElementsMatch(t, want, r.first[""])
		} else {
			require.Equal(t, want, r.first[key], "key %s", key)
		}
	}
}
