package outbox_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Forwarders and subscribers on one table, whose broker and consumers often fail, so that keys are held back, parked and
// released by both. Each message goes to one of them at least, and none stays behind.
func TestForwarderAndSubscribersShareATable(t *testing.T) {
	t.Parallel()
	const transactions, each, keys = 60, 20, 10
	eachDriver(t, func(a adapted) {
		t := a.t
		b := newBroker()
		b.fail = func(string, *message.Message) error {
			if rand.IntN(5) == 0 {
				return errors.New("refused by chance")
			}
			return nil
		}
		config := outbox.ForwarderConfig{
			Workers: 2, BatchSize: 40, PollInterval: 10 * time.Millisecond,
			Retry: outbox.RetryPolicy{MaxAttempts: -1, Initial: time.Millisecond, Max: 20 * time.Millisecond},
		}
		start(t, forwarder(t, a.pool, b, config))
		acked := &acks{times: map[string]int{}}
		for range 3 {
			messages := a.subscribe(t, "orders", batches(7))
			go func() {
				for msg := range messages {
					if rand.IntN(10) == 0 {
						msg.Nack()
						continue
					}
					acked.ack(msg)
				}
			}()
		}
		written := map[string]bool{}
		for i := range transactions {
			var payloads []string
			for j := range each {
				payloads = append(payloads, fmt.Sprint(i, "-", j))
				written[payloads[j]] = true
			}
			put(t, a.pool, "orders", fmt.Sprint("k", i%keys), payloads...)
		}
		a.awaitCount(t, 0)
		distinct, again := acked.count()
		got := map[string]bool{}
		for _, m := range b.all() {
			got[m.payload] = true
		}
		forwarded := len(got)
		for payload := range acked.times {
			got[payload] = true
		}
		require.Equal(t, written, got)
		require.Empty(t, dead(t, a.pool))
		t.Logf("%d messages: %d forwarded, %d acked by subscribers, %d of them more than once", len(written), forwarded, distinct, again)
	})
}

func TestSubscriberAndForwarderGoAroundEachOthersMessages(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		put(t, a.pool, "orders", "a", "held by the subscriber")
		messages := a.subscribe(t, "orders", batches(1))
		held := next(t, messages)

		put(t, a.pool, "orders", "b", "for the forwarder")
		reached, release := make(chan struct{}), make(chan struct{})
		b := newBroker()
		b.fail = func(string, *message.Message) error {
			close(reached)
			<-release
			return nil
		}
		f := forwarder(t, a.pool, b, outbox.ForwarderConfig{Workers: 1})
		ended := make(chan error, 1)
		go func() {
			_, err := f.RunOnce(t.Context())
			ended <- err
		}()
		<-reached // and holds what it has claimed

		put(t, a.pool, "orders", "b", "for the subscriber")
		held.Ack()
		require.Equal(t, []string{"for the subscriber"}, ack(t, messages, 1))
		a.awaitCount(t, 1)
		close(release)
		require.NoError(t, <-ended)
		a.awaitCount(t, 0)
		require.Equal(t, []string{"for the forwarder"}, b.payloads("b"))
	})
}
