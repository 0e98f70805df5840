package tests

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// lateCommits is one setting of the test below.
type lateCommits struct {
	name                      string
	keys                      int
	processes, workers, batch int
	bulk                      int  // transactions of each bulk writer
	failing                   bool // a tenth of the publishes
	held                      func(t *testing.T, pool *pgxpool.Pool) (release func())
}

// Transactions that are ordered by their aggregate's row commit in any order, late, and beside large ones. Each message
// must be forwarded, and those of one aggregate in their order, without a sweep to help.
func TestLateCommitsAreNeitherOvertakenNorStranded(t *testing.T) {
	for _, c := range []lateCommits{
		{name: "few keys, small batches", keys: 5, processes: 2, workers: 12, bulk: 2, batch: 128},
		{name: "many keys, small batches", keys: 2000, processes: 3, workers: 8, bulk: 2, batch: 128},
		{name: "many keys", keys: 2000, processes: 3, workers: 4, bulk: 2, batch: 500},
		{name: "few keys, failing", keys: 5, processes: 3, workers: 4, bulk: 1, batch: 500, failing: true},
		{name: "many keys, small batches, failing", keys: 2000, processes: 2, workers: 12, bulk: 1, batch: 128, failing: true},
		{name: "a reading transaction held open", keys: 2000, processes: 2, workers: 12, bulk: 2, batch: 128, held: reading},
		{name: "writing transactions held open", keys: 5, processes: 3, workers: 8, bulk: 2, batch: 128, held: writing},
	} {
		t.Run(c.name, c.run)
	}
}

func (c lateCommits) run(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url, connections(40))
	migrate(t, pool)
	writers := &load{
		pool: pool, keys: c.keys, writers: 24, rows: 1, transactions: scaled(t, 60), lateFor: 20 * time.Millisecond,
		bulkWriters: 4, bulkTransactions: scaled(t, c.bulk), bulkRows: 3000, bulkFor: 300 * time.Millisecond,
	}
	writers.prepare(t)
	execute(t, pool, `INSERT INTO public.agg VALUES ('held', 0)`)

	ledger := newLedger(nil)
	if c.failing {
		ledger.judge = failing(0.1)
	}
	order := childOrder{URL: url, Ledger: ledger.serve(t), Workers: c.workers, Batch: c.batch, PollInterval: 50 * time.Millisecond, RetryInitial: 10 * time.Millisecond}
	var forwarders []*process
	for range c.processes {
		forwarders = append(forwarders, launch(t, ledger, order))
	}
	release := func() {}
	if c.held != nil {
		release = c.held(t, pool)
	}
	writers.begin(t)
	committed := writers.end(t)
	release()
	committed["held"] = committedNumbers(t, pool)["held"]

	stranded := ledger.drained(t, pool, patience)
	for _, p := range forwarders {
		require.NoError(t, p.terminate())
	}
	result := ledger.tally(t, committed)
	t.Logf("%v, stranded %d", result, stranded)
	require.Zero(t, result.disorder, "out of order")
	require.Zero(t, stranded, "stranded")
	require.Zero(t, result.lost, "lost")
	require.LessOrEqual(t, result.duplicates, result.denied, "sent again without a reason")
}

// failing refuses a share of the messages, half of which it takes none the less.
func failing(share float64) func(entry) verdict {
	return func(entry) verdict {
		switch f := rand.Float64(); {
		case f < share/2:
			return refuses
		case f < share:
			return takesAndRefuses
		}
		return takes
	}
}

// reading holds a snapshot until the test's end: nothing that is settled can be cleaned up.
func reading(t *testing.T, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
	var n int
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM public.outbox`).Scan(&n))
	return func() {}
}

// writing holds one transaction open in another database until the test's end, and one that has published until the
// other writers have stopped. Its messages have low ids, and must be found far below the floors.
func writing(t *testing.T, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	elsewhere, err := testdb.New(t).Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = elsewhere.Rollback(t.Context()) })
	_, err = elsewhere.Exec(t.Context(), `CREATE TABLE public.held ()`)
	require.NoError(t, err)

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
	require.NoError(t, advance(t.Context(), tx, "held", 500))
	return func() {
		require.NoError(t, advance(t.Context(), tx, "held", 500))
		require.NoError(t, tx.Commit(t.Context()))
	}
}
