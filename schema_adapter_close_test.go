package outbox_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// acks is what consumers have acked, and how often.
type acks struct {
	mu    sync.Mutex
	times map[string]int
}

func (a *acks) ack(msg *message.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if msg.Ack() {
		a.times[string(msg.Payload)]++
	}
}

func (a *acks) count() (distinct, again int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, times := range a.times {
		again += times - 1
	}
	return len(a.times), again
}

// requireUnackedKept checks that whatever is gone from the outbox was acked.
func (a *acks) requireUnackedKept(t testing.TB, outboxed adapted, written []string) {
	t.Helper()
	rows, err := outboxed.pool.Query(t.Context(), `SELECT convert_from(payload, 'UTF8') FROM public.outbox`)
	require.NoError(t, err)
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	there := map[string]bool{}
	for _, payload := range left {
		there[payload] = true
	}
	for _, payload := range written {
		require.True(t, there[payload] || a.times[payload] > 0, "%s was settled, and never acked", payload)
	}
}

// A subscriber is stopped in the middle of a batch, again and again: with one message delivered and not acked, or while
// messages are being acked; by Close, or by the end of its context.
func TestSubscriberStoppedInTheMiddleOfABatchSettlesNothingUnacked(t *testing.T) {
	t.Parallel()
	const rounds = 200
	eachDriver(t, func(a adapted) {
		t := a.t
		written := numbered(1, 10*rounds)
		put(t, a.pool, "orders", "", written...)
		acked := &acks{times: map[string]int{}}
		for round := range rounds {
			ctx, cancel := context.WithCancel(t.Context())
			s := a.subscriber(t, batches(20))
			messages, err := s.Subscribe(ctx, "orders")
			require.NoError(t, err)
			for range rand.IntN(15) {
				acked.ack(next(t, messages))
			}
			var consumer sync.WaitGroup
			if round%2 == 0 {
				next(t, messages)
			} else {
				consumer.Go(func() {
					for msg := range messages {
						acked.ack(msg)
					}
				})
			}
			if round%4 < 2 {
				require.NoError(t, s.Close())
			}
			cancel()
			consumer.Wait()
			require.NoError(t, s.Close())
			acked.requireUnackedKept(t, a, written)
			if count(t, a.pool, "true") < 20 {
				put(t, a.pool, "orders", "", numbered(len(written)+1, len(written)+200)...)
				written = append(written, numbered(len(written)+1, len(written)+200)...)
			}
		}
		messages := a.subscribe(t, "orders")
		eventually(t, "everything is settled", func() bool {
			select {
			case msg := <-messages:
				acked.ack(msg)
			default:
			}
			return count(t, a.pool, "true") == 0
		})
		distinct, again := acked.count()
		require.Len(t, written, distinct, "every message was acked")
		t.Logf("%d messages, %d stops in the middle of a batch: none lost, %d acked ones came again", len(written), rounds, again)
	})
}

// Ids repeat where somebody has inserted them by hand.
func TestMessagesWithOneIDAreSettledOneByOne(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		for _, uuid := range []string{"1", "2", "3", "4"} {
			execute(t, a.pool, `INSERT INTO public.outbox (id, topic, uuid) VALUES (7, 'orders', '`+uuid+`')`)
		}
		s := a.subscriber(t)
		messages, err := s.Subscribe(t.Context(), "orders")
		require.NoError(t, err)
		settled := []string{next(t, messages).UUID}
		require.NoError(t, s.Close())
		require.Equal(t, 4, count(t, a.pool, "true"))

		s = a.subscriber(t)
		messages, err = s.Subscribe(t.Context(), "orders")
		require.NoError(t, err)
		msg := next(t, messages)
		require.Equal(t, settled[0], msg.UUID)
		msg.Ack()
		next(t, messages)
		require.NoError(t, s.Close())
		require.Equal(t, 3, count(t, a.pool, "uuid <> '"+settled[0]+"'"))
		require.Equal(t, 3, count(t, a.pool, "true"))
	})
}

func TestSubscribersShareATopic(t *testing.T) {
	t.Parallel()
	const subscribers = 8
	eachDriver(t, func(a adapted) {
		t := a.t
		written := numbered(1, 2000)
		put(t, a.pool, "orders", "", written...)
		acked := &acks{times: map[string]int{}}
		for range subscribers {
			messages := a.subscribe(t, "orders", batches(10))
			go func() {
				for msg := range messages {
					acked.ack(msg)
				}
			}()
		}
		a.awaitCount(t, 0)
		distinct, again := acked.count()
		require.Len(t, written, distinct)
		require.Zero(t, again, "each came once")
	})
}

func TestMessageThatOneSubscriberHoldsIsPassedOverByAnother(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		put(t, a.pool, "orders", "", numbered(1, 30)...)
		one := a.subscribe(t, "orders", batches(5))
		held := next(t, one)
		require.Equal(t, "1", string(held.Payload))
		other := a.subscribe(t, "orders", batches(5))
		require.Equal(t, numbered(6, 30), ack(t, other, 25))
		a.awaitCount(t, 5)
		held.Ack()
		require.Equal(t, numbered(2, 5), ack(t, one, 4))
		a.awaitCount(t, 0)
	})
}
