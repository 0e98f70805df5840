package tests

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// Forwarder processes are killed at random moments, and replaced. Nothing may be missing, and only what a killed one had
// in flight may come again.
func TestKilledForwardersLoseNothing(t *testing.T) {
	const (
		forwarders, workers, batch = 4, 4, 100
	)
	kills := scaled(t, 20)
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	migrate(t, pool)
	writers := &load{pool: pool, keys: 200, writers: 4, rows: 10, transactions: scaled(t, 500)}
	writers.prepare(t)
	messages := writers.writers * writers.rows * writers.transactions
	ledger := newLedger(nil)
	order := childOrder{
		URL: url, Ledger: ledger.serve(t), Workers: workers, Batch: batch, PollInterval: 50 * time.Millisecond,
		RetryInitial: time.Second, MaxLatency: 2 * time.Millisecond,
	}
	running := make([]*process, forwarders)
	for i := range running {
		running[i] = launch(t, ledger, order)
	}
	for _, p := range running {
		p.awaitRunning(t)
	}
	writers.begin(t)

	moments := make([]int, kills)
	for i := range moments {
		moments[i] = rand.IntN(messages * 9 / 10)
	}
	slices.Sort(moments)
	inFlight, most := 0, 0
	for _, moment := range moments {
		await(t, "the moment of a kill has come", ledger.reached(moment))
		<-time.After(rand.N(5 * time.Millisecond))
		n := rand.IntN(forwarders)
		running[n].kill(t)
		inFlight += ledger.inFlight(running[n].name)
		most = max(most, ledger.inFlight(running[n].name))
		running[n] = launch(t, ledger, order)
	}
	committed := writers.end(t)
	stranded := ledger.drained(t, pool, patience)
	for _, p := range running {
		require.NoError(t, p.terminate())
	}
	result := ledger.tally(t, committed)
	t.Logf("%d kills: %v, stranded %d; in flight at the kills %d, at most %d of %d", kills, result, stranded, inFlight, most, workers*batch)
	require.Equal(t, messages, result.written)
	require.Zero(t, stranded)
	require.Zero(t, result.lost, "missing")
	require.Zero(t, result.disorder, "first deliveries out of order")
	require.LessOrEqual(t, result.duplicates, inFlight, "sent again without having been in flight at a kill")
	require.LessOrEqual(t, most, workers*batch)
}
