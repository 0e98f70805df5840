package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const topic = "orders"

// load writes messages in transactions that are ordered by their aggregate's row. The rows tell afterwards what was
// committed, whatever a writer was told.
type load struct {
	pool         *pgxpool.Pool
	keys         int
	writers      int
	rows         int           // of a transaction
	transactions int           // of each writer; more if the bulk writers have not ended, or it is not yet time
	until        chan struct{} // closed when it is; may be nil
	lateFor      time.Duration // a third of the transactions stay open for up to this

	bulkWriters, bulkTransactions int
	bulkRows                      int           // each transaction of a bulk writer has so many rows, on keys of its own
	bulkFor                       time.Duration // and stays open for twice this

	ledger *ledger // not nil: writers wait while it has more than ahead messages to come
	ahead  int

	tolerant bool // errors are expected; the next transaction goes on

	written atomic.Int64

	writing, bulkWriting sync.WaitGroup
	mu                   sync.Mutex
	errs                 []error
}

// bulkKeys is the number of keys over which a bulk writer spreads its rows.
const bulkKeys = 50

// prepare makes the aggregates.
func (l *load) prepare(t testing.TB) {
	t.Helper()
	execute(t, l.pool, `CREATE TABLE public.agg (key text PRIMARY KEY, seq int NOT NULL)`)
	execute(t, l.pool, `INSERT INTO public.agg SELECT 'k' || g, 0 FROM generate_series(1, $1) g`, l.keys)
	execute(t, l.pool, `INSERT INTO public.agg SELECT 'bulk' || w || '-' || g, 0 FROM generate_series(1, $1) w, generate_series(1, $2) g`, l.bulkWriters, bulkKeys)
}

// begin starts the writers.
func (l *load) begin(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() { cancel(); l.writing.Wait(); l.bulkWriting.Wait() })
	bulkEnded, end := context.WithCancel(ctx)
	for w := range l.bulkWriters {
		l.bulkWriting.Go(func() {
			for range l.bulkTransactions {
				l.transaction(ctx, func(ctx context.Context) error { return l.bulk(ctx, w+1) })
			}
		})
	}
	l.writing.Go(func() {
		defer end()
		l.bulkWriting.Wait()
		if l.until != nil {
			select {
			case <-l.until:
			case <-ctx.Done():
			}
		}
	})
	for range l.writers {
		l.writing.Go(func() {
			for n := 0; n < l.transactions || bulkEnded.Err() == nil; n++ {
				l.keepPace(bulkEnded)
				l.transaction(ctx, l.one)
			}
		})
	}
}

func (l *load) keepPace(until context.Context) {
	written := int(l.written.Add(int64(l.rows)))
	if l.ledger == nil || written <= l.ahead {
		return
	}
	select {
	case <-l.ledger.reached(written - l.ahead):
	case <-until.Done():
	}
}

// transaction lets a begun one end, and begins none after the test's end.
func (l *load) transaction(ctx context.Context, do func(context.Context) error) {
	if ctx.Err() != nil {
		return
	}
	if err := do(context.WithoutCancel(ctx)); err != nil && !l.tolerant {
		l.mu.Lock()
		l.errs = append(l.errs, err)
		l.mu.Unlock()
	}
}

// end waits for the writers and gives the highest committed number of each key.
func (l *load) end(t testing.TB) (committed map[string]int) {
	t.Helper()
	l.writing.Wait()
	require.Empty(t, l.errs)
	return committedNumbers(t, l.pool)
}

func committedNumbers(t testing.TB, pool *pgxpool.Pool) map[string]int {
	t.Helper()
	committed := map[string]int{}
	rows, err := pool.Query(t.Context(), `SELECT key, seq FROM public.agg WHERE seq > 0`)
	require.NoError(t, err)
	var key string
	var seq int
	_, err = pgx.ForEachRow(rows, []any{&key, &seq}, func() error { committed[key] = seq; return nil })
	require.NoError(t, err)
	return committed
}

// one transaction moves one aggregate on.
func (l *load) one(ctx context.Context) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		if err := advance(ctx, tx, "k"+strconv.Itoa(1+rand.IntN(l.keys)), l.rows); err != nil {
			return err
		}
		if l.lateFor > 0 && rand.IntN(3) == 0 {
			return hold(ctx, tx, rand.N(l.lateFor))
		}
		return nil
	})
}

// bulk writes half of its rows early and half of them late.
func (l *load) bulk(ctx context.Context, writer int) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		for range 2 {
			for key := range bulkKeys {
				if err := advance(ctx, tx, fmt.Sprintf("bulk%d-%d", writer, key+1), l.bulkRows/2/bulkKeys); err != nil {
					return err
				}
			}
			if err := hold(ctx, tx, l.bulkFor); err != nil {
				return err
			}
		}
		return nil
	})
}

// hold keeps the transaction open for a while.
func hold(ctx context.Context, tx pgx.Tx, d time.Duration) error {
	_, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, d.Seconds())
	return err
}

// advance moves an aggregate on by n, and publishes each step.
func advance(ctx context.Context, tx pgx.Tx, key string, n int) error {
	var seq int
	if err := tx.QueryRow(ctx, `UPDATE public.agg SET seq = seq + $2 WHERE key = $1 RETURNING seq`, key, n).Scan(&seq); err != nil {
		return err
	}
	return publish(ctx, tx, key, seq-n+1, seq)
}

// publish writes the messages of a key with the numbers from first to last.
func publish(ctx context.Context, db outbox.PgxExecutor, key string, first, last int) error {
	publisher, err := outbox.NewPgxPublisher(db, outbox.PublisherConfig{}, nil)
	if err != nil {
		return err
	}
	messages := make([]*message.Message, 0, last-first+1)
	for number := first; number <= last; number++ {
		msg := message.NewMessage("", []byte(strconv.Itoa(number)))
		outbox.SetKey(msg, key)
		messages = append(messages, msg)
	}
	messages[0].SetContext(ctx)
	return publisher.Publish(topic, messages...)
}
