package tests

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

const messages = 20

// The broker has acknowledged everything, and the connection is cut before the settlement has reached the server.
func TestAConnectionCutBeforeCommit(t *testing.T) {
	url := testdb.URL(t)
	proxy := newProxy(t, url)
	s := newSite(t, url, proxy.url)
	s.put(t, messages)
	acknowledged, settle := s.gate.shut(t, messages)
	start(t, s.forwarder)
	await(t, "the broker has everything", acknowledged)
	proxy.Stop()
	settle()
	s.awaitTrouble(t)
	s.requireUntouched(t, messages)
	require.NoError(t, proxy.Start())
	require.Equal(t, messages, s.awaitPeace(t).duplicates, "each comes once more, with its uuid")
}

// The server has committed the settlement, but the forwarder does not get to know.
func TestTheAnswerToCommitIsLost(t *testing.T) {
	url := testdb.URL(t)
	proxy := newProxy(t, url)
	s := newSite(t, url, proxy.url)
	start(t, s.forwarder)
	s.put(t, messages) // so that the statements are prepared, and the settlement is one round trip
	s.awaitPeace(t)

	acknowledged, settle := s.gate.shut(t, messages)
	s.put(t, messages)
	await(t, "the broker has everything", acknowledged)
	heal := proxy.loseAnswers(t)
	settle()
	s.awaitTrouble(t)
	require.Zero(t, count(t, s.pool, "public.outbox"), "the server has committed")
	heal()
	require.Zero(t, s.awaitPeace(t).duplicates)
	s.put(t, messages)
	require.Zero(t, s.awaitPeace(t).duplicates)
}

// The network swallows the settlement, and nobody closes anything, until it comes back and knows no connection.
func TestABlackHoleSwallowsTheSettlement(t *testing.T) {
	url := testdb.URL(t)
	proxy := newProxy(t, url)
	s := newSite(t, url, proxy.url)
	s.put(t, messages)
	acknowledged, settle := s.gate.shut(t, messages)
	start(t, s.forwarder)
	await(t, "the broker has everything", acknowledged)
	swallowed, heal := proxy.swallow(t, toServer)
	settle()
	await(t, "the settlement is swallowed", swallowed)
	s.requireUntouched(t, messages)
	heal()
	require.Equal(t, messages, s.awaitPeace(t).duplicates, "each comes once more, with its uuid")
}

// The network swallows the answer to the settlement.
func TestABlackHoleSwallowsTheAnswerToCommit(t *testing.T) {
	url := testdb.URL(t)
	proxy := newProxy(t, url)
	s := newSite(t, url, proxy.url)
	start(t, s.forwarder)
	s.put(t, messages) // so that the statements are prepared, and the settlement is one round trip
	s.awaitPeace(t)

	acknowledged, settle := s.gate.shut(t, messages)
	s.put(t, messages)
	await(t, "the broker has everything", acknowledged)
	swallowed, heal := proxy.swallow(t, fromServer)
	settle()
	await(t, "the answer is swallowed", swallowed)
	eventually(t, "the server has committed", func() bool { return count(t, s.pool, "public.outbox") == 0 })
	heal()
	require.Zero(t, s.awaitPeace(t).duplicates)
}

// The network swallows the poll of an idle forwarder.
func TestABlackHoleSwallowsThePoll(t *testing.T) {
	url := testdb.URL(t)
	proxy := newProxy(t, url)
	s := newSite(t, url, proxy.url)
	start(t, s.forwarder)
	s.put(t, messages)
	s.awaitPeace(t)
	swallowed, heal := proxy.swallow(t, toServer)
	await(t, "a poll is swallowed", swallowed)
	s.put(t, messages)
	s.requireUntouched(t, messages)
	heal()
	require.Zero(t, s.awaitPeace(t).duplicates)
}

// An administrator, or a failover, ends the backend between the broker's acknowledgement and the settlement.
func TestABackendTerminatedBeforeTheSettlement(t *testing.T) {
	url := testdb.URL(t)
	s := newSite(t, url, url)
	s.put(t, messages)
	acknowledged, settle := s.gate.shut(t, messages)
	start(t, s.forwarder)
	await(t, "the broker has everything", acknowledged)
	var terminated int
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&terminated))
	require.Equal(t, 1, terminated)
	settle()
	require.Equal(t, messages, s.awaitPeace(t).duplicates, "each comes once more, with its uuid")
}

// The database gives transactions that are idle for a second no more time, and a publish takes longer. The forwarder's
// own limit counts.
func TestAnInheritedIdleTimeoutDoesNotEndAPass(t *testing.T) {
	url := testdb.URL(t)
	s := newSite(t, url, url)
	execute(t, s.pool, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = ''1s''', current_database());
	END $$`)
	s.forwarder = s.newForwarder(t, url, 1) // on new connections
	s.put(t, messages)
	acknowledged, settle := s.gate.shut(t, messages)
	start(t, s.forwarder)
	await(t, "the broker has everything", acknowledged)

	bystander, err := testdb.Open(t, url).Begin(t.Context())
	require.NoError(t, err)
	var pid int
	require.NoError(t, bystander.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
	eventually(t, "a transaction that began later is ended", func() bool {
		var there bool
		require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, pid).Scan(&there))
		return !there
	})
	require.Error(t, bystander.Rollback(t.Context()))
	settle()
	require.Zero(t, s.awaitPeace(t).duplicates)
}

// What transactions are by default in the role or database is not for the forwarder's, those that put it to sleep included.
func TestInheritedTransactionDefaultsDoNotCount(t *testing.T) {
	url := testdb.URL(t)
	s := newSite(t, url, url+"&default_transaction_read_only=on&default_transaction_isolation=serializable&default_transaction_deferrable=on")
	start(t, s.forwarder)
	for range 2 {
		eventually(t, "the forwarder sleeps and wants to be woken", func() bool {
			return count(t, s.pool, "public.outbox_doorbell WHERE is_called") == 1
		})
		require.NoError(t, s.forwarder.Health())
		s.put(t, messages)
		require.Zero(t, s.awaitPeace(t).duplicates)
	}
}
