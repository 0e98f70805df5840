package outbox_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// wakes notes why a forwarder woke, and armed waits until its bell is.
type wakes struct {
	mu      sync.Mutex
	reasons map[outbox.WakeReason]int
}

func (w *wakes) OnWake(e outbox.WakeEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reasons == nil {
		w.reasons = map[outbox.WakeReason]int{}
	}
	w.reasons[e.Reason]++
}

func (w *wakes) count(r outbox.WakeReason) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reasons[r]
}

const bellArmed = `SELECT is_called FROM public.outbox_doorbell`

func TestASleepingForwarderIsWokenByTheBell(t *testing.T) {
	pool, out, woken := migrated(t), newBroker(), &wakes{}
	// With a poll of an hour, only the bell can bring the messages.
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{PollInterval: time.Hour, Hooks: []outbox.Hook{woken}}))
	armed := func() (on bool) {
		require.NoError(t, pool.QueryRow(t.Context(), bellArmed).Scan(&on))
		return on
	}
	for i := range 20 {
		eventually(t, "the bell is armed", armed)
		put(t, pool, "orders", "a", "x")
		if i == 0 { // the commit that falls between the arming and the sleep is for the poll; it is not this one
			out.await(t, 1)
		}
	}
	out.await(t, 20)
	require.Positive(t, woken.count(outbox.WakeBell))
}

func TestAListenerThatWasKilledListensAgainAndNothingWaitsForTheNextNotification(t *testing.T) {
	pool, out := migrated(t), newBroker()
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{PollInterval: time.Hour}))
	listener := `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`
	var first int
	eventually(t, "it listens", func() bool { return pool.QueryRow(t.Context(), listener).Scan(&first) == nil })
	_, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend($1)`, first)
	require.NoError(t, err)
	put(t, pool, "orders", "a", "1") // its notification is lost
	out.await(t, 1)
	eventually(t, "it listens again", func() bool {
		var pid int
		return pool.QueryRow(t.Context(), listener).Scan(&pid) == nil && pid != first
	})
}

func TestWithoutABellItPolls(t *testing.T) {
	for name, schema := range map[string]outbox.Schema{"no doorbell": {NoDoorbell: true}, "poll only": {}} {
		t.Run(name, func(t *testing.T) {
			pool, out, woken := unmigrated(t), newBroker(), &wakes{}
			require.NoError(t, outbox.Migrate(t.Context(), pool, schema))
			start(t, forwarder(t, pool, out, outbox.ForwarderConfig{Schema: schema, PollOnly: name == "poll only", Hooks: []outbox.Hook{woken}}))
			eventually(t, "it has slept", func() bool { return woken.count(outbox.WakePoll) > 0 })
			put(t, pool, "orders", "a", "1")
			out.await(t, 1)
			require.Zero(t, woken.count(outbox.WakeBell))
		})
	}
}

func TestWakeMakesAnIdleForwarderLook(t *testing.T) {
	pool, out, woken := unmigrated(t), newBroker(), &wakes{}
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{NoDoorbell: true}))
	f := start(t, forwarder(t, pool, out, outbox.ForwarderConfig{PollInterval: time.Hour, PollOnly: true, Hooks: []outbox.Hook{woken}}))
	put(t, pool, "orders", "a", "1")
	eventually(t, "it was woken", func() bool { f.Wake(); return woken.count(outbox.WakeBell) > 0 })
	out.await(t, 1)
}

func TestABusyForwarderStopsTheBellAndAnIdleOneArmsItAgain(t *testing.T) {
	pool, out := migrated(t), newBroker()
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{Workers: 1, BatchSize: 1}))
	armed := func() (on bool) {
		require.NoError(t, pool.QueryRow(t.Context(), bellArmed).Scan(&on))
		return on
	}
	eventually(t, "the bell is armed", armed)
	stopped := false
	eventually(t, "the bell was stopped under load", func() bool {
		put(t, pool, "orders", "a", numbered(1, 200)...)
		stopped = stopped || !armed()
		return stopped
	})
	eventually(t, "the bell is armed again", armed)
}

func TestAConnectionThatTheServerEndsForItsIdlenessIsNoTrouble(t *testing.T) {
	pool, out := migrated(t), newBroker()
	var database string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&database))
	_, err := pool.Exec(t.Context(), `ALTER DATABASE `+database+` SET idle_session_timeout = '50ms'`)
	require.NoError(t, err)
	limited := testdb.Open(t, pool.Config().ConnString())
	f := start(t, forwarder(t, limited, out, outbox.ForwarderConfig{Workers: 2, PollInterval: 200 * time.Millisecond}))
	workers := func() (pids []int32) {
		rows, err := pool.Query(t.Context(), `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE 'LISTEN%'`)
		require.NoError(t, err)
		pids, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		require.NoError(t, err)
		return pids
	}
	seen := map[int32]bool{}
	eventually(t, "several connections were ended and replaced", func() bool {
		for _, pid := range workers() {
			seen[pid] = true
		}
		require.NoError(t, f.Health())
		return len(seen) >= 8
	})
	put(t, pool, "orders", "a", "1")
	out.await(t, 1)
}
