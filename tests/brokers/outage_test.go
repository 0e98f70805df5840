package brokers

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// outageVariable makes the outage longer, a minute for instance: 60s.
const outageVariable = "OUTBOX_TEST_OUTAGE"

// Under load, with two forwarders: the broker is stopped for a while and comes back, then it is killed and comes back.
// Nothing is lost, each key stays in order, and no message is charged with an attempt.
func TestAnOutageAndAKillUnderLoad(t *testing.T) {
	t.Parallel()
	for _, p := range withAMQP(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			endure(t, p.own(t))
		})
	}
}

func endure(t *testing.T, s *site) {
	t.Helper()
	pool := testdb.New(t)
	w := newWriter(t, pool, testdb.Random("outage_"))
	b := s.open(t, testdb.Random("group_"))
	r := read(t, b, w.topic)
	first, second := newForwarder(t, pool, s, b), newForwarder(t, pool, s, b)
	run(t, first)
	run(t, second)
	stop := w.keepWriting(t)
	progress(t, r)

	s.stop(t)
	eventually(t, "a forwarder says that the broker is down", func() bool { return first.Health() != nil || second.Health() != nil })
	<-time.After(outage(t))
	requireUncharged(t, pool)
	s.start(t)
	progress(t, r)
	s.kill(t)
	eventually(t, "a forwarder says that the broker is down", func() bool { return first.Health() != nil || second.Health() != nil })
	s.start(t)
	progress(t, r)

	stop()
	eventually(t, "all that was committed is there", func() bool { return r.got() == w.total() })
	requireUncharged(t, pool)
	r.requireInOrder(t, w.written)
	letters, err := outbox.NewDeadLetters(pool, outbox.Schema{})
	require.NoError(t, err)
	requireSettled(t, letters, pool, 0)
	t.Logf("%d messages, %d deliveries: none lost, none out of order, none charged", w.total(), r.deliveries())
}

// outage is how long the broker stays down once that was noticed.
func outage(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv(outageVariable)
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, outageVariable)
	return d
}

// progress waits until more messages come.
func progress(t testing.TB, r *reader) {
	t.Helper()
	before := r.got()
	eventually(t, "more messages come", func() bool { return r.got() > before+100 })
}

// keepWriting writes, some hundred messages a second, until it is told to stop.
func (w *writer) keepWriting(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := w.transaction(context.WithoutCancel(ctx), nil); err != nil {
				ended <- err
				return
			}
			<-tick.C
		}
		ended <- nil
	}()
	stopped := false
	stop = func() {
		t.Helper()
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return stop
}
