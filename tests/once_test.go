package tests

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// Orders go through forwarders, a broker that redelivers at random, and consumers whose handlers fail, all of them
// processes that are killed at random moments. Each order must take effect exactly once.
func TestEffectsHappenExactlyOnce(t *testing.T) {
	kills := scaled(t, 10)
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	migrate(t, pool)
	require.NoError(t, outbox.Migrate(t.Context(), pool, produced))
	execute(t, pool, `CREATE TABLE public.booked (order_id text NOT NULL)`)
	execute(t, pool, `CREATE TABLE public.totals (shard int PRIMARY KEY, orders int NOT NULL)`)
	execute(t, pool, `INSERT INTO public.totals SELECT g, 0 FROM generate_series(0, 7) g`)
	writers := &load{pool: pool, keys: 200, writers: 4, rows: 5, transactions: scaled(t, 250)}
	writers.prepare(t)
	orders := writers.writers * writers.rows * writers.transactions

	x := newExchange()
	ledger := newLedger(x.offer)
	forwards := childOrder{
		URL: url, Ledger: ledger.serve(t), Workers: 2, Batch: 50, PollInterval: 50 * time.Millisecond,
		RetryInitial: time.Second, MaxLatency: 2 * time.Millisecond,
	}
	consumes := childOrder{URL: url, Ledger: forwards.Ledger, Exchange: x.serve(t), Driver: driverPgx}
	consumesSQL := consumes
	consumesSQL.Driver = driverPq
	running := []childOrder{forwards, forwards, forwards, consumes, consumesSQL, consumes}
	processes := make([]*process, len(running))
	for i, order := range running {
		processes[i] = launch(t, ledger, order)
	}
	moments := make([]int, kills)
	for i := range moments {
		moments[i] = rand.IntN(orders * 9 / 10)
	}
	slices.Sort(moments)
	moments = slices.Compact(moments)
	reached := make([]<-chan struct{}, len(moments))
	for i, moment := range moments {
		reached[i] = x.after(moment)
	}
	writers.begin(t)
	for i := range moments {
		await(t, "the moment of a kill has come", reached[i])
		<-time.After(rand.N(5 * time.Millisecond))
		n := (i + rand.IntN(2)*3) % len(running) // both kinds
		processes[n].kill(t)
		processes[n] = launch(t, ledger, running[n])
	}
	committed := writers.end(t)
	require.Zero(t, ledger.drained(t, pool, patience), "stranded")
	eventually(t, "every order is acknowledged, and nothing is in flight", func() bool {
		messages, open, _ := x.state()
		return messages == orders && open == 0
	})
	for _, p := range processes {
		require.NoError(t, p.terminate())
	}
	require.Zero(t, ledger.tally(t, committed).lost)
	_, _, delivered := x.state()
	t.Logf("%d orders, %d kills, %d deliveries", orders, len(moments), delivered)
	requireOnce(t, pool, orders)
}

func requireOnce(t *testing.T, pool *pgxpool.Pool, orders int) {
	t.Helper()
	require.Equal(t, orders, count(t, pool, `public.booked`), "effects")
	require.Equal(t, orders, count(t, pool, `(SELECT DISTINCT order_id FROM public.booked) b`), "orders with an effect")
	require.Equal(t, orders, count(t, pool, `generate_series(1, (SELECT sum(orders) FROM public.totals)) g`), "total")
	require.Equal(t, orders, count(t, pool, `public.outbox_inbox`), "recorded")
	require.Equal(t, orders, count(t, pool, `public.produced WHERE topic = 'counted'`), "messages that handlers returned")
	require.Equal(t, orders, count(t, pool, `(SELECT DISTINCT payload FROM public.produced) p`), "orders with such a message")
	require.Zero(t, count(t, pool, `public.booked b WHERE NOT EXISTS (SELECT 1 FROM public.produced p WHERE convert_from(p.payload, 'UTF8') = b.order_id)`))
}
