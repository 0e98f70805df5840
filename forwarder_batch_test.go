package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// batchBroker is a broker that takes batches. It keeps to the contract: behind a failed message, those of its key are held
// back.
type batchBroker struct {
	*broker
	batches  atomic.Int32
	largest  atomic.Int32
	verdicts func(ctx context.Context, batch []outbox.Outgoing) []error // instead of its own
}

func newBatchBroker() *batchBroker { return &batchBroker{broker: newBroker()} }

func (b *batchBroker) PublishBatch(ctx context.Context, batch []outbox.Outgoing) []error {
	b.batches.Add(1)
	b.largest.Store(max(b.largest.Load(), int32(len(batch))))
	if b.verdicts != nil {
		return b.verdicts(ctx, batch)
	}
	return b.take(batch)
}

func (b *batchBroker) take(batch []outbox.Outgoing) []error {
	verdicts, failed := make([]error, len(batch)), map[string]bool{}
	for i, out := range batch {
		if failed[out.Key] {
			verdicts[i] = outbox.ErrHeldBack
			continue
		}
		verdicts[i] = b.Publish(out.Topic, out.Message)
		failed[out.Key] = verdicts[i] != nil && out.Key != ""
	}
	return verdicts
}

var errBad = errors.New("bad")

// failsBad refuses messages whose payload is bad.
func failsBad(_ string, msg *message.Message) error {
	if string(msg.Payload) == "bad" {
		return errBad
	}
	return nil
}

var never = outbox.RetryPolicy{Initial: time.Hour, Max: time.Hour}

func TestABatchHasAVerdictForEachOfItsMessages(t *testing.T) {
	pool, out := migrated(t), newBatchBroker()
	out.fail = failsBad
	put(t, pool, "orders", "a", "1", "bad", "3")
	put(t, pool, "orders", "", "bad")
	put(t, pool, "orders", "b", numbered(1, 50)...)
	f := forwarder(t, pool, out, outbox.ForwarderConfig{Retry: never})
	n, err := f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 51, n)
	require.Equal(t, []string{"1"}, out.payloads("a"), "what is behind the failed one waits")
	require.Equal(t, numbered(1, 50), out.payloads("b"), "many of one key at once, in order")
	require.GreaterOrEqual(t, out.largest.Load(), int32(50))
	require.Equal(t, 2, count(t, pool, "attempts = 1 AND last_error = 'bad'"))
	require.Equal(t, 1, count(t, pool, "next_attempt_at = 'infinity' AND attempts = 0"), "held back is no failure")
}

func TestABatchThatPanicsOrEndsItsGoroutineOrMiscountsFailsAsAWhole(t *testing.T) {
	for name, misbehave := range map[string]func() []error{
		"panic":          func() []error { panic("boom") },
		"goexit":         func() []error { runtime.Goexit(); return nil },
		"miscount":       func() []error { return make([]error, 1) },
		"only held back": func() []error { return []error{outbox.ErrHeldBack, outbox.ErrHeldBack} },
	} {
		t.Run(name, func(t *testing.T) {
			pool, out := migrated(t), newBatchBroker()
			out.verdicts = func(context.Context, []outbox.Outgoing) []error { return misbehave() }
			put(t, pool, "orders", "a", "1")
			put(t, pool, "orders", "", "2")
			f := forwarder(t, pool, out, outbox.ForwarderConfig{Retry: never})
			n, err := f.RunOnce(t.Context())
			require.Zero(t, n)
			require.Error(t, err, "without evidence it is an outage")
			require.Equal(t, 2, count(t, pool, "attempts = 0 AND next_attempt_at IS NULL"))

			out.verdicts = nil
			eventually(t, "they come through", func() bool {
				more, err := f.RunOnce(t.Context())
				n += more
				return err == nil && n == 2
			})
		})
	}
}

func TestABatchThatOutlivesItsTimeoutIsNotAcknowledgedAndItsLateSuccessIsADuplicate(t *testing.T) {
	pool, out := migrated(t), newBatchBroker()
	hang, told := make(chan struct{}), make(chan struct{})
	out.verdicts = func(ctx context.Context, batch []outbox.Outgoing) []error {
		if batch[0].Key != "slow" {
			return out.take(batch)
		}
		<-ctx.Done()
		close(told)
		<-hang
		return out.take(batch)
	}
	put(t, pool, "orders", "slow", "1", "2")
	f := forwarder(t, pool, out, outbox.ForwarderConfig{PublishTimeout: 50 * time.Millisecond, Retry: never})
	n, err := f.RunOnce(t.Context())
	require.Zero(t, n)
	require.ErrorContains(t, err, "PublishTimeout")
	<-told
	out.verdicts = nil
	close(hang)
	out.await(t, 2)
	require.Equal(t, 2, count(t, pool, "attempts = 0"), "the late success settles nothing")
	eventually(t, "they come again", func() bool {
		_, err := f.RunOnce(t.Context())
		return err == nil && count(t, pool, "true") == 0
	})
	require.Equal(t, []string{"1", "2", "1", "2"}, out.payloads("slow"))
}

func TestABatchThatTellsAtItsTimeoutWhatWasAcknowledgedHasThatSettled(t *testing.T) {
	pool, out := migrated(t), newBatchBroker()
	out.verdicts = func(ctx context.Context, batch []outbox.Outgoing) []error {
		<-ctx.Done()
		verdicts := out.take(batch[:1])
		for range batch[1:] {
			verdicts = append(verdicts, ctx.Err())
		}
		return verdicts
	}
	put(t, pool, "orders", "a", "1", "2")
	f := forwarder(t, pool, out, outbox.ForwarderConfig{PublishTimeout: 2 * time.Second, Retry: never})
	n, err := f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, 1, count(t, pool, "attempts = 1"), "the acknowledged one is evidence")
}

func TestAStopInTheMiddleOfABatchSettlesItsVerdicts(t *testing.T) {
	pool, out := migrated(t), newBatchBroker()
	out.fail = failsBad
	began, finish := make(chan struct{}), make(chan struct{})
	out.verdicts = func(_ context.Context, batch []outbox.Outgoing) []error {
		close(began)
		<-finish
		return out.take(batch)
	}
	put(t, pool, "orders", "a", "1", "2", "bad", "4")
	f := forwarder(t, pool, out, outbox.ForwarderConfig{Retry: never})
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.WithoutCancel(t.Context())) }()
	<-began
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }()
	close(finish)
	require.NoError(t, <-closed)
	require.NoError(t, <-ended)
	require.Equal(t, []string{"1", "2"}, out.payloads("a"))
	require.Equal(t, 2, count(t, pool, "true"))
	require.Equal(t, int32(1), out.batches.Load())
}

func TestARowThatIsNoMessageIsOutOfTheBatchAndItsKeyWaits(t *testing.T) {
	pool, out := migrated(t), newBatchBroker()
	put(t, pool, "orders", "a", "1", "odd", "3")
	put(t, pool, "orders", "b", "1")
	_, err := pool.Exec(t.Context(), `UPDATE public.outbox SET metadata = '{"n": 1}' WHERE payload = 'odd'`)
	require.NoError(t, err)
	f := forwarder(t, pool, out, outbox.ForwarderConfig{})
	n, err := f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, []string{"1", "3"}, out.payloads("a"), "the rest of its key came with the next batch")
	letters := dead(t, pool)
	require.Len(t, letters, 1)
	require.Contains(t, letters[0], "no JSON object of strings")
}

func TestWithMiddlewaresABatchPublisherGetsOneMessageAtATime(t *testing.T) {
	pool, out := migrated(t), newBatchBroker()
	put(t, pool, "orders", "", numbered(1, 5)...)
	var seen atomic.Int32
	f := forwarder(t, pool, out, outbox.ForwarderConfig{Middlewares: []message.HandlerMiddleware{
		func(next message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				seen.Add(1)
				return next(msg)
			}
		},
	}})
	n, err := f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.Equal(t, int32(5), seen.Load())
	require.Zero(t, out.batches.Load())
}

func TestBatchesKeepToTheRateAndToTheBatchSize(t *testing.T) {
	pool, out := migrated(t), newBatchBroker()
	for i := range 40 {
		put(t, pool, "orders", fmt.Sprint(i%3), fmt.Sprint(i))
	}
	f := forwarder(t, pool, out, outbox.ForwarderConfig{BatchSize: 7, MaxPerSecond: 200})
	n, err := f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 40, n)
	require.LessOrEqual(t, out.largest.Load(), int32(7))
	for key := range 3 {
		payloads := out.payloads(fmt.Sprint(key))
		for i, payload := range payloads {
			require.Equal(t, fmt.Sprint(key+3*i), payload)
		}
	}
}
