package outbox_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// A claim has seen the quarantine and takes a new message of the key for a part of the tail; it publishes another message,
// which takes its time. The quarantine ends meanwhile. Then the new message would be left among the dead, alone, and would
// quarantine the key for ever.
func TestAClaimThatStillSeesTheQuarantineIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, operate := range map[string]struct {
		call func(*outbox.DeadLetters) (int64, error)
		n    int64
		want []string
	}{
		"requeue": {func(d *outbox.DeadLetters) (int64, error) {
			return d.Requeue(t.Context(), outbox.DeadLetterFilter{Key: "k"})
		}, 4, []string{"poison", "1", "2", "3", "4"}},
		"discard": {func(d *outbox.DeadLetters) (int64, error) {
			return d.Discard(t.Context(), outbox.DeadLetterFilter{IDs: []int64{1}})
		}, 1, []string{"1", "2", "3", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, out := migrated(t), newBroker()
			put(t, pool, "orders", "k", "poison", "1", "2")
			bury(t, pool, "true")
			inFlight, goOn := make(chan struct{}), make(chan struct{})
			out.fail = func(_ string, msg *message.Message) error {
				if string(msg.Payload) == "slow" {
					close(inFlight)
					<-goOn
				}
				return nil
			}
			put(t, pool, "orders", "k", "3")
			put(t, pool, "orders", "another", "slow")
			start(t, forwarder(t, pool, out, outbox.ForwarderConfig{Workers: 1, PollInterval: 20 * time.Millisecond}))
			<-inFlight

			type result struct {
				n   int64
				err error
			}
			d, ended := deadLetters(t, pool), make(chan result, 1)
			go func() {
				n, err := operate.call(d)
				ended <- result{n, err}
			}()
			awaitWaiters(t, pool, 1)
			require.Len(t, dead(t, pool), 3)
			require.Equal(t, 2, count(t, pool, "true"))
			close(goOn)
			require.Equal(t, result{operate.n, nil}, <-ended)
			put(t, pool, "orders", "k", "4")
			out.await(t, 1+len(operate.want))
			require.Equal(t, operate.want, out.payloads("k"))
			require.Empty(t, dead(t, pool))
		})
	}
}

// Both have matched the same letters before either has their lanes.
func TestTwoOperatorsWhoRequeueTheSameMoveEachLetterOnce(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	d := deadLetters(t, pool)
	filters := []outbox.DeadLetterFilter{
		everyLetter, {Topic: "orders"}, {OlderThan: time.Microsecond, Limit: 20}, {ErrorContains: "refused"}, {Key: "k1"}, {All: true, AfterID: 3},
	}
	for round := range 40 {
		execute(t, pool, `TRUNCATE public.outbox RESTART IDENTITY`)
		for key := range 5 {
			put(t, pool, "orders", fmt.Sprint("k", key), numbered(1, 5)...)
		}
		put(t, pool, "orders", "", numbered(1, 25)...)
		bury(t, pool, "true")
		giveBack := func() {}
		if round%2 == 0 { // so that all have matched before one goes on
			giveBack = holdLane(t, pool, "k1")
		}
		var moved atomic.Int64
		var operators sync.WaitGroup
		for _, filter := range filters {
			operators.Go(func() {
				n, err := d.Requeue(t.Context(), filter)
				if err != nil {
					t.Error(err)
				}
				moved.Add(n)
			})
		}
		if round%2 == 0 {
			eventually(t, "most of them wait", func() bool { return waiters(t, pool) >= 4 })
		}
		giveBack()
		operators.Wait()
		require.Equal(t, int64(50), moved.Load())
		require.Equal(t, 50, count(t, pool, "true"))
		require.Empty(t, list(t, pool, everyLetter))
	}
}

func TestAnOperatorWhoDiscardsAndOneWhoRequeuesShareTheLetters(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	d := deadLetters(t, pool)
	for range 40 {
		execute(t, pool, `TRUNCATE public.outbox`)
		for key := range 5 {
			put(t, pool, "orders", fmt.Sprint("k", key), numbered(1, 5)...)
		}
		put(t, pool, "orders", "", numbered(1, 10)...)
		bury(t, pool, "true")
		var discarded, requeued atomic.Int64
		var operators sync.WaitGroup
		operators.Go(func() {
			n, err := d.Discard(t.Context(), outbox.DeadLetterFilter{ErrorContains: "refused"})
			if err != nil {
				t.Error(err)
			}
			discarded.Store(n)
		})
		operators.Go(func() {
			n, err := d.Requeue(t.Context(), everyLetter)
			if err != nil {
				t.Error(err)
			}
			requeued.Store(n)
		})
		operators.Wait()
		require.Empty(t, list(t, pool, everyLetter))
		require.Equal(t, 35-discarded.Load(), int64(count(t, pool, "true")))
		require.Contains(t, []int64{0, 15}, discarded.Load())
		require.Contains(t, []int64{0, 35}, requeued.Load())
	}
}

// What dies in a lane that was not asked for is left; what dies in one of them goes along.
func TestLettersThatDieWhileAnOperatorWaits(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	put(t, pool, "orders", "k", "1", "2")
	put(t, pool, "orders", "another lane", "3")
	bury(t, pool, "id = 1")
	giveBack := holdLane(t, pool, "k")
	d, moved := deadLetters(t, pool), make(chan int64, 1)
	go func() {
		n, err := d.Requeue(t.Context(), everyLetter)
		if err != nil {
			t.Error(err)
		}
		moved <- n
	}()
	awaitWaiters(t, pool, 1)
	execute(t, pool, `UPDATE public.outbox_dead SET holds = false`)
	bury(t, pool, "true")
	giveBack()
	require.Equal(t, int64(2), <-moved)
	require.Equal(t, []int64{3}, ids(list(t, pool, everyLetter)))
}
