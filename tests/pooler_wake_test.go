package tests

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// wakes is a hook that counts why a forwarder woke.
type wakes struct {
	mu     sync.Mutex
	reason map[outbox.WakeReason]int
}

// OnWake counts.
func (w *wakes) OnWake(e outbox.WakeEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reason == nil {
		w.reason = map[outbox.WakeReason]int{}
	}
	w.reason[e.Reason]++
}

func (w *wakes) count(r outbox.WakeReason) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reason[r]
}

// errorLog is a logger that keeps the errors. (Watermill's own capturing one may not be read while it is written to.)
type errorLog struct {
	watermill.NopLogger
	mu     sync.Mutex
	errors []error
}

// Error keeps the error.
func (l *errorLog) Error(_ string, err error, _ watermill.LogFields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, err)
}

// With gives the same logger.
func (l *errorLog) With(watermill.LogFields) watermill.LoggerAdapter { return l }

func (l *errorLog) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.errors)
}

// behindPooler starts a forwarder whose pool goes through the pooler, and notes what it logs as an error.
func behindPooler(t *testing.T, p pooling, config outbox.ForwarderConfig) (s *site, woken *wakes, logged *errorLog) {
	t.Helper()
	s = newSite(t, p.direct, p.in("exec"))
	woken = &wakes{}
	logged = &errorLog{}
	config.Workers, config.Hooks = 1, []outbox.Hook{woken, s.charges}
	f, err := outbox.NewForwarder(testdb.Open(t, p.in("exec"), connections(2)), local{s.ledger, forwarderName}, config, logged)
	require.NoError(t, err)
	s.forwarder = f
	start(t, f)
	return s, woken, logged
}

func (s *site) awaitArmed(t *testing.T) {
	t.Helper()
	eventually(t, "the forwarder sleeps and wants to be woken", func() bool {
		return count(t, s.pool, "public.outbox_doorbell WHERE is_called") == 1
	})
}

// With a poll of an hour only a notification can bring the messages.
func TestADirectConnectionToListenWakesAForwarderBehindAPooler(t *testing.T) {
	p := newPooling(t)
	s, woken, _ := behindPooler(t, p, outbox.ForwarderConfig{ListenDSN: p.direct, PollInterval: time.Hour})
	s.awaitArmed(t)
	for range 5 {
		s.put(t, messages)
		require.Zero(t, s.awaitPeace(t).duplicates)
		s.awaitArmed(t)
	}
	require.Positive(t, woken.count(outbox.WakeBell))
}

func TestPollOnlyBehindAPoolerPollsAndIsSilent(t *testing.T) {
	s, woken, logged := behindPooler(t, newPooling(t), outbox.ForwarderConfig{PollOnly: true})
	for range 3 {
		polls := woken.count(outbox.WakePoll)
		eventually(t, "it polls", func() bool { return woken.count(outbox.WakePoll) > polls })
		s.put(t, messages)
		require.Zero(t, s.awaitPeace(t).duplicates)
	}
	require.Zero(t, woken.count(outbox.WakeBell))
	require.Zero(t, count(t, s.pool, "public.outbox_doorbell WHERE is_called"))
	require.Empty(t, logged.all())
}

// LISTEN through the pooler succeeds and is useless. The messages come all the same, and the log says once what to do;
// it is no trouble to Health, for the forwarder gets on.
func TestListeningThroughAPoolerIsNoticedAndPolledInstead(t *testing.T) {
	p := newPooling(t)
	s, _, logged := behindPooler(t, p, outbox.ForwarderConfig{})
	s.put(t, messages)
	require.Zero(t, s.awaitPeace(t).duplicates)
	if p.isReal {
		eventually(t, "it is noticed", func() bool { return len(logged.all()) > 0 })
	} else {
		s.awaitArmed(t)
	}
	s.put(t, messages)
	require.Zero(t, s.awaitPeace(t).duplicates)
	require.NoError(t, s.forwarder.Health())
	errors := logged.all()
	if !p.isReal {
		require.Empty(t, errors, "it hears")
		return
	}
	require.Len(t, errors, 1)
	require.ErrorContains(t, errors[0], "set ListenDSN to a direct connection")
}
