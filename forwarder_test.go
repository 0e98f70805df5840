package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestForwardsWhatCommitsAndNothingElse(t *testing.T) {
	pool, out := migrated(t), newBroker()
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{}))

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, write(t.Context(), tx, "orders", "a", "rolled back"))
	require.NoError(t, tx.Rollback(t.Context()))
	tx, err = pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, write(t.Context(), tx, "orders", "a", "1", "2"))
	require.NoError(t, tx.Commit(t.Context()))
	put(t, pool, "orders", "a", "3")

	out.await(t, 3)
	require.Equal(t, []string{"1", "2", "3"}, out.payloads("a"))
	eventually(t, "the outbox is empty", func() bool { return count(t, pool, "true") == 0 })
	require.Len(t, out.all(), 3)
}

func TestRunOnceForwardsEverythingAndReturns(t *testing.T) {
	pool, out := migrated(t), newBroker()
	for _, key := range []string{"a", "b", "c", ""} {
		put(t, pool, "orders", key, numbered(1, 1000)...)
	}
	n, err := forwarder(t, pool, out, outbox.ForwarderConfig{}).RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4000, n)
	for _, key := range []string{"a", "b", "c"} {
		require.Equal(t, numbered(1, 1000), out.payloads(key))
	}
	require.Zero(t, count(t, pool, "true"))
}

func TestAFailedMessageHoldsBackItsKeyAndNoOther(t *testing.T) {
	pool, out := migrated(t), newBroker()
	tries := 0
	out.fail = func(_ string, msg *message.Message) error {
		if outbox.Key(msg) == "a" && string(msg.Payload) == "1" {
			if tries++; tries <= 2 {
				return errors.New("not now")
			}
		}
		return nil
	}
	put(t, pool, "orders", "a", numbered(1, 100)...)
	put(t, pool, "orders", "b", numbered(1, 100)...)
	f := forwarder(t, pool, out, outbox.ForwarderConfig{Retry: outbox.RetryPolicy{Initial: 100 * time.Millisecond}})
	n, err := f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 100, n)
	require.Equal(t, numbered(1, 100), out.payloads("b"))
	require.Equal(t, 99, count(t, pool, `holds AND next_attempt_at = 'infinity'`))
	require.Equal(t, 1, count(t, pool, `holds AND attempts = 1 AND last_error = 'not now'`))

	put(t, pool, "orders", "a", numbered(101, 150)...)
	start(t, f)
	put(t, pool, "orders", "b", numbered(101, 110)...)
	out.await(t, 260)
	require.Equal(t, numbered(1, 150), out.payloads("a"))
	require.Equal(t, numbered(1, 110), out.payloads("b"))
}

func TestTheSecondRunIsRefusedAndCloseEndsIt(t *testing.T) {
	pool := migrated(t)
	f := forwarder(t, pool, newBroker(), outbox.ForwarderConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	<-f.Running()
	require.ErrorIs(t, f.Run(t.Context()), outbox.ErrAlreadyRunning)
	cancel()
	require.NoError(t, <-ended)
	go func() { ended <- f.Run(t.Context()) }()
	eventually(t, "it is closed", func() bool { return f.Close() == nil })
	<-ended
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Run(t.Context()), outbox.ErrClosed)
	_, err := f.RunOnce(t.Context())
	require.ErrorIs(t, err, outbox.ErrClosed)
}
