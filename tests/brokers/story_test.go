package brokers

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// The same story over every broker: messages that commit and that are rolled back, order by key, a nack, a poison message,
// an outage, a new forwarder.
func TestTheStory(t *testing.T) {
	t.Parallel()
	for _, p := range withAMQP(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			tell(t, p.own(t))
		})
	}
}

func tell(t *testing.T, s *site) {
	t.Helper()
	pool := testdb.New(t)
	topic := testdb.Random("story_")
	w := newWriter(t, pool, topic)
	b := s.open(t, testdb.Random("group_"))
	r := read(t, b, topic, "00003 of key 1", "00012 of ")
	all := func() bool { return r.got() == w.total() }

	stop := run(t, newForwarder(t, pool, s, b))
	w.write(t, 10)
	eventually(t, "what was committed is there", all)

	letters, err := outbox.NewDeadLetters(pool, outbox.Schema{})
	require.NoError(t, err)
	poisons := 0
	if s.poison != nil {
		poisons = 1
		badTopic, payload := s.poison(t, s, topic)
		require.NoError(t, put(t.Context(), pool, badTopic, "poisoned", payload))
		w.write(t, 10)
		eventually(t, "its neighbours pass", all)
		eventually(t, "it is a dead letter", func() bool {
			dead, err := letters.List(t.Context(), outbox.DeadLetterFilter{})
			require.NoError(t, err)
			return len(dead) == 1 && dead[0].Key == "poisoned" && dead[0].Attempts == 1
		})
	}

	s.stop(t)
	w.write(t, 10)
	f := newForwarder(t, pool, s, b)
	stop()
	stop = run(t, f)
	eventually(t, "the forwarder says that the broker is down", func() bool { return f.Health() != nil })
	w.write(t, 10)
	s.start(t)
	eventually(t, "all that was written in the outage is there", all)
	eventually(t, "the forwarder is well again", func() bool { return f.Health() == nil })
	stop()

	w.write(t, 10)
	run(t, newForwarder(t, pool, s, b))
	eventually(t, "the next forwarder goes on", all)
	r.requireInOrder(t, w.written)
	requireSettled(t, letters, pool, poisons)
}

func newForwarder(t testing.TB, pool *pgxpool.Pool, s *site, b broker.Broker) *outbox.Forwarder {
	t.Helper()
	f, err := outbox.NewForwarder(pool, s.publisher(b), outbox.ForwarderConfig{
		Workers: 2, PublishTimeout: 5 * time.Second, Classify: s.classify(b),
	}, nil)
	require.NoError(t, err)
	return f
}

// requireUncharged says that no message that waits was charged with an attempt.
func requireUncharged(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	var charged, dead int
	require.NoError(t, pool.QueryRow(t.Context(),
		`SELECT (SELECT count(*) FROM public.outbox WHERE attempts > 0), (SELECT count(*) FROM public.outbox_dead)`).Scan(&charged, &dead))
	require.Zero(t, charged)
	require.Zero(t, dead)
}

// requireSettled says that nothing is left but the poison, and that no attempt was charged to anything else.
func requireSettled(t testing.TB, letters *outbox.DeadLetters, pool *pgxpool.Pool, poisons int) {
	t.Helper()
	eventually(t, "all is settled", func() bool {
		stats, err := outbox.ReadStats(t.Context(), pool, outbox.Schema{})
		require.NoError(t, err)
		require.Zero(t, stats.Retrying, "an outage charges nobody")
		return stats.Ready+stats.Parked+stats.Delayed == 0
	})
	dead, err := letters.List(t.Context(), outbox.DeadLetterFilter{})
	require.NoError(t, err)
	require.Len(t, dead, poisons)
}
