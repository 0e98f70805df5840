package outbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestStatsCountEachMessageOnce(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	schema := outbox.Schema{Name: "shop"}
	require.NoError(t, outbox.Migrate(t.Context(), pool, schema))
	execute(t, pool,
		`INSERT INTO shop.outbox (topic, uuid, key, next_attempt_at, attempts, holds) VALUES
			('t', 'ready', '', NULL, 0, false), ('t', 'ready with a key', 'a', NULL, 0, false),
			('t', 'delayed', '', now() + interval '1 hour', 0, false), ('t', 'delayed and due', '', now() - interval '1 hour', 0, false),
			('t', 'delayed for ever', 'a', 'infinity', 0, false),
			('t', 'backing off', '', now() + interval '1 hour', 2, false), ('t', 'backing off with a key', 'b', now() + interval '1 hour', 1, true),
			('t', 'due again', 'c', now(), 3, true),
			('t', 'parked', 'b', 'infinity', 0, true), ('t', 'parked after a failure', 'b', 'infinity', 1, true),
			('t', 'released', 'c', now(), 0, true), ('t', 'parked too', 'c', 'infinity', 0, true)`,
		`INSERT INTO shop.outbox_dead (txid, id, lane, topic, key, uuid, metadata, created_at, attempts, last_error, holds, tail)
			SELECT '7', n, 0, 't', key, 'u', '{}', now(), 1, 'refused', holds, false
			FROM (VALUES (1, 'x', true), (2, 'x', true), (3, 'y', true), (4, 'z', false), (5, '', false)) v(n, key, holds)`)

	stats, err := outbox.ReadStats(t.Context(), pool, schema)
	require.NoError(t, err)
	require.GreaterOrEqual(t, stats.OldestReadyAge, time.Hour)
	stats.OldestReadyAge = 0
	require.Equal(t, outbox.Stats{Ready: 2, Delayed: 3, Retrying: 3, Parked: 4, Dead: 5, QuarantinedKeys: 2}, stats)
}

func TestOldestReadyAgeIsOfWhatCouldHaveBeenForwarded(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{}))
	age := func() time.Duration {
		stats, err := outbox.ReadStats(t.Context(), pool, outbox.Schema{})
		require.NoError(t, err)
		return stats.OldestReadyAge
	}
	require.Zero(t, age(), "an empty outbox")
	execute(t, pool, `INSERT INTO public.outbox (topic, uuid, created_at, next_attempt_at, holds) VALUES
		('t', 'due tomorrow', now() - interval '9 hours', now() + interval '24 hours', false),
		('t', 'parked', now() - interval '9 hours', 'infinity', true)`)
	require.Zero(t, age(), "nothing can be forwarded yet")
	execute(t, pool, `INSERT INTO public.outbox (topic, uuid, created_at) VALUES ('t', 'by a clock ahead of ours', now() + interval '1 hour')`)
	require.Zero(t, age(), "never negative")
	execute(t, pool, `INSERT INTO public.outbox (topic, uuid, created_at, next_attempt_at) VALUES
		('t', 'due for an hour', now() - interval '9 hours', now() - interval '1 hour')`)
	require.InDelta(t, time.Hour, age(), float64(time.Minute))
	execute(t, pool, `INSERT INTO public.outbox (topic, uuid, created_at) VALUES ('t', 'ready', now() - interval '2 hours')`)
	require.InDelta(t, 2*time.Hour, age(), float64(time.Minute))
}

func TestStatsWithoutTablesSayThatTheyAreMissing(t *testing.T) {
	t.Parallel()
	for _, schema := range []outbox.Schema{{}, {Name: "nowhere"}} {
		_, err := outbox.ReadStats(t.Context(), testdb.New(t), schema)
		require.ErrorIs(t, err, outbox.ErrSchemaVersion)
		require.ErrorContains(t, err, schema.String())
	}
}
