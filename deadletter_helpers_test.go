package outbox_test

import (
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

var everyLetter = outbox.DeadLetterFilter{All: true, Limit: -1}

func deadLetters(t testing.TB, pool *pgxpool.Pool) *outbox.DeadLetters {
	t.Helper()
	d, err := outbox.NewDeadLetters(pool, outbox.Schema{})
	require.NoError(t, err)
	return d
}

// bury makes dead letters of messages in the outbox, as a forwarder would: those without a key each for itself, of a key
// the first as the one that failed and the others as its tail.
func bury(t *testing.T, pool *pgxpool.Pool, where string) {
	t.Helper()
	execute(t, pool, `WITH gone AS (DELETE FROM public.outbox WHERE `+where+` RETURNING *)
		INSERT INTO public.outbox_dead (txid, id, lane, topic, key, uuid, payload, metadata, created_at, attempts, last_error, holds, tail)
		SELECT txid, id, lane, topic, key, uuid, payload, metadata, created_at, CASE WHEN failed THEN 10 ELSE 0 END,
			CASE WHEN failed THEN 'refused' ELSE '' END, key <> '', NOT failed
		FROM (SELECT *, key = '' OR id = min(id) OVER (PARTITION BY key) AS failed FROM gone) g`)
}

// poisonable gives a broker that refuses "poison" for good, until it is healed.
func poisonable() (out *broker, heal func()) {
	var healed atomic.Bool
	out = newBroker()
	out.fail = func(topic string, msg *message.Message) error {
		if healed.Load() {
			return nil
		}
		return outbox.Permanent(poison(topic, msg))
	}
	return out, func() { healed.Store(true) }
}

func runOnce(t testing.TB, pool *pgxpool.Pool, out message.Publisher, config outbox.ForwarderConfig) {
	t.Helper()
	_, err := forwarder(t, pool, out, config).RunOnce(t.Context())
	require.NoError(t, err)
}

func requeue(t testing.TB, pool *pgxpool.Pool, filter outbox.DeadLetterFilter) int64 {
	t.Helper()
	n, err := deadLetters(t, pool).Requeue(t.Context(), filter)
	require.NoError(t, err)
	return n
}

func discard(t testing.TB, pool *pgxpool.Pool, filter outbox.DeadLetterFilter) int64 {
	t.Helper()
	n, err := deadLetters(t, pool).Discard(t.Context(), filter)
	require.NoError(t, err)
	return n
}

func list(t testing.TB, pool *pgxpool.Pool, filter outbox.DeadLetterFilter) []outbox.DeadLetter {
	t.Helper()
	letters, err := deadLetters(t, pool).List(t.Context(), filter)
	require.NoError(t, err)
	return letters
}

// ids gives the letters' ids in their order, never nil.
func ids(letters []outbox.DeadLetter) []int64 {
	all := make([]int64, 0, len(letters))
	for _, l := range letters {
		all = append(all, l.ID)
	}
	return all
}

// holdLane takes the lane of a key, as a claim does, until the test gives it back.
func holdLane(t *testing.T, pool *pgxpool.Pool, key string) (giveBack func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1, (hashtextextended($2::text COLLATE "C", 0) & 63)::int)`,
		pgsql.Names{Schema: "public", Table: "outbox"}.LockClass(), key)
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// awaitWaiters waits until so many sessions of the database wait for an advisory lock.
func awaitWaiters(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	eventually(t, "somebody waits for a lock", func() bool { return waiters(t, pool) == n })
}

func waiters(t testing.TB, pool *pgxpool.Pool) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks
		WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n))
	return n
}
