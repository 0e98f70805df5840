package outbox_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestAPanicOrTheEndOfTheGoroutineIsAFailureOfThatMessage(t *testing.T) {
	for name, misbehave := range map[string]func(){
		"panic":     func() { panic("boom") },
		"nil panic": func() { panic(nil) }, //nolint:govet // on purpose
		"goexit":    runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			pool, out := migrated(t), newBroker()
			out.fail = func(_ string, msg *message.Message) error {
				if string(msg.Payload) == "bad" {
					misbehave()
				}
				return nil
			}
			put(t, pool, "orders", "a", "1", "bad", "3")
			put(t, pool, "orders", "b", "1")
			put(t, pool, "orders", "c", "bad")
			put(t, pool, "orders", "", "bad")
			for i := range 20 {
				put(t, pool, "orders", fmt.Sprint("good ", i), "1")
			}
			f := forwarder(t, pool, out, outbox.ForwarderConfig{PublishConcurrency: 2, Retry: outbox.RetryPolicy{Initial: time.Hour, Max: time.Hour}})
			n, err := f.RunOnce(t.Context())
			require.NoError(t, err)
			require.Equal(t, 22, n)
			require.Equal(t, []string{"1"}, out.payloads("a"))
			require.Equal(t, 3, count(t, pool, "attempts = 1"))
			require.Equal(t, 1, count(t, pool, "next_attempt_at = 'infinity'"))
		})
	}
}

func TestAPublishThatOutlivesItsTimeoutIsNotAcknowledgedAndStopsOnlyItsKey(t *testing.T) {
	pool, out := migrated(t), newBroker()
	hang := make(chan struct{})
	var told atomic.Bool
	out.fail = func(_ string, msg *message.Message) error {
		if string(msg.Payload) == "slow" {
			<-msg.Context().Done() // a publisher that heeds its message's context is told
			told.Store(true)
			<-hang
		}
		return nil
	}
	put(t, pool, "orders", "a", "slow", "2")
	put(t, pool, "orders", "b", numbered(1, 50)...)
	f := forwarder(t, pool, out, outbox.ForwarderConfig{PublishConcurrency: 1, PublishTimeout: 50 * time.Millisecond,
		Retry: outbox.RetryPolicy{Initial: time.Hour, Max: time.Hour}})
	n, err := f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 50, n)
	require.Equal(t, 1, count(t, pool, "attempts = 1 AND last_error LIKE '%PublishTimeout%'"))
	eventually(t, "the publisher was told", told.Load)
	close(hang) // its late success is a duplicate, not an acknowledgement
	out.await(t, 51)
	require.Equal(t, 2, count(t, pool, "key = 'a'"))
}

func TestAPassThatUsesUpItsTimeSettlesWhatWasAcknowledged(t *testing.T) {
	pool, out := migrated(t), newBroker()
	waited := make(chan struct{})
	out.fail = func(_ string, msg *message.Message) error {
		if string(msg.Payload) == "3" {
			<-waited // until the pass is over
		}
		return nil
	}
	put(t, pool, "orders", "a", numbered(1, 10)...)
	settled := make(chan outbox.SettleEvent, 100)
	f := start(t, forwarder(t, pool, out, outbox.ForwarderConfig{PassTimeout: 30 * time.Millisecond, Hooks: []outbox.Hook{settleHook(func(e outbox.SettleEvent) { settled <- e })}}))
	out.await(t, 2)
	eventually(t, "the pass's time is over", func() bool { close2(waited); return true })
	out.await(t, 10)
	require.NoError(t, f.Close())
	require.Equal(t, numbered(1, 10), out.payloads("a"))
	total := 0
	for len(settled) > 0 {
		total += (<-settled).Acked
	}
	require.Equal(t, 10, total)
}

func TestABatchThatStopsHalfWaySettlesExactlyWhatWasAcknowledged(t *testing.T) {
	pool, out := migrated(t), newBroker()
	ctx, cancel := context.WithCancel(t.Context())
	out.fail = func(_ string, msg *message.Message) error {
		if string(msg.Payload) == "3" {
			cancel() // in the instant in which the broker acknowledges
		}
		return nil
	}
	put(t, pool, "orders", "a", numbered(1, 10)...)
	f := forwarder(t, pool, out, outbox.ForwarderConfig{})
	n, err := f.RunOnce(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, n)
	require.Equal(t, numbered(1, 3), out.payloads("a"))
	require.Equal(t, 7, count(t, pool, "attempts = 0 AND next_attempt_at IS NULL"))
	_, err = f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, numbered(1, 10), out.payloads("a"))
}

func TestMiddlewaresWrapEachPublish(t *testing.T) {
	pool, out := migrated(t), newBroker()
	var wrapped atomic.Int32
	var topics []string
	count1 := func(next message.HandlerFunc) message.HandlerFunc {
		wrapped.Add(1)
		return func(msg *message.Message) ([]*message.Message, error) {
			topic, ok := outbox.TopicFromContext(msg.Context())
			if ok {
				topics = append(topics, topic)
			}
			return next(msg)
		}
	}
	tries := 0
	out.fail = func(string, *message.Message) error {
		if tries++; tries < 3 {
			return errBroker
		}
		return nil
	}
	retry := middleware.Retry{MaxRetries: 5, InitialInterval: time.Millisecond}
	put(t, pool, "orders", "a", "1", "2")
	n, err := forwarder(t, pool, out, outbox.ForwarderConfig{Middlewares: []message.HandlerMiddleware{count1, retry.Middleware, middleware.Recoverer}}).RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, []string{"orders", "orders"}, topics)
	require.EqualValues(t, 1, wrapped.Load(), "wrapped once, as in a router")
}

func TestAMiddlewareThatSwallowsIsAFailure(t *testing.T) {
	for name, swallow := range map[string]message.HandlerMiddleware{
		"does not call the next": func(message.HandlerFunc) message.HandlerFunc {
			return func(*message.Message) ([]*message.Message, error) { return nil, nil }
		},
		"ignores the error": func(next message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) { _, _ = next(msg); return nil, nil }
		},
		"drops the context": func(next message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) { return next(msg.Copy()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool, out := migrated(t), newBroker()
			if name == "ignores the error" {
				out.fail = func(string, *message.Message) error { return errBroker }
			}
			put(t, pool, "orders", "a", "1")
			_, err := forwarder(t, pool, out, outbox.ForwarderConfig{Middlewares: []message.HandlerMiddleware{swallow}}).RunOnce(t.Context())
			require.ErrorContains(t, err, "outbox: ")
			require.Equal(t, 1, count(t, pool, "attempts = 0"))
		})
	}
}

func TestMaxPerSecondLosesNothing(t *testing.T) {
	pool, out := migrated(t), newBroker()
	put(t, pool, "orders", "a", numbered(1, 50)...)
	f := forwarder(t, pool, out, outbox.ForwarderConfig{MaxPerSecond: 200})
	_, err := f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, numbered(1, 50), out.payloads("a"))
}

func TestPublishesInFlightThatOutliveCloseTimeoutAreReported(t *testing.T) {
	pool, out := migrated(t), newBroker()
	hang := make(chan struct{})
	defer close(hang)
	entered := make(chan struct{}, 10)
	out.fail = func(_ string, msg *message.Message) error {
		if outbox.Key(msg) == "hangs" {
			entered <- struct{}{}
			<-hang
		}
		return nil
	}
	put(t, pool, "orders", "a", "1")
	put(t, pool, "orders", "hangs", "1")
	f := forwarder(t, pool, out, outbox.ForwarderConfig{CloseTimeout: 50 * time.Millisecond, Workers: 1})
	ended := make(chan error, 1)
	go func() { ended <- f.Run(t.Context()) }()
	<-entered
	out.await(t, 1)
	err := f.Close()
	require.ErrorIs(t, err, outbox.ErrCloseTimeout)
	require.ErrorIs(t, <-ended, outbox.ErrCloseTimeout)
	require.ErrorIs(t, f.Close(), outbox.ErrCloseTimeout, "every Close returns the same")
	require.Equal(t, 1, count(t, pool, "true"), "what was acknowledged is settled")
	require.Equal(t, 1, count(t, pool, "key = 'hangs' AND attempts = 0"), "a stop is no failure")
}

type settleHook func(outbox.SettleEvent)

func (h settleHook) OnSettle(e outbox.SettleEvent) { h(e) }

func close2(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
