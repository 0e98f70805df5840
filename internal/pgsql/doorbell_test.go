package pgsql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestBellRingsOnceAStatementAndOnlyForASleeper(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	names := nasty[0]
	migrate(t, pool, names)
	s := pgsql.Render(names)
	listener, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer listener.Release()
	_, err = listener.Exec(t.Context(), s.ListenBell)
	require.NoError(t, err)
	insert := "INSERT INTO " + names.Relation("outbox") + " (topic, uuid) SELECT 't', 'u' FROM generate_series(1, 5)"

	require.False(t, scan[bool](t, pool, s.ReadBell), "nobody sleeps yet")
	execute(t, pool, insert)
	execute(t, pool, s.SetBell, true)
	require.True(t, scan[bool](t, pool, s.ReadBell))
	execute(t, pool, insert)
	execute(t, pool, s.SetBell, false)
	require.False(t, scan[bool](t, pool, s.ReadBell))
	execute(t, pool, insert)
	execute(t, pool, "SELECT pg_notify($1, 'the end')", names.Channel())

	for _, payload := range []string{"", "the end"} {
		notification, err := listener.Conn().WaitForNotification(t.Context())
		require.NoError(t, err)
		require.Equal(t, names.Channel(), notification.Channel)
		require.Equal(t, payload, notification.Payload)
	}
}

// PostgreSQL refuses to PREPARE a transaction that has notified: the reason why the doorbell may be left out.
func TestWithoutTheDoorbellTransactionsCanBePrepared(t *testing.T) {
	t.Parallel()
	pool := testdb.Open(t, testdb.Create(t, testdb.Dedicated(t)))
	migrate(t, pool, plain)
	s := pgsql.Render(plain)
	execute(t, pool, s.SetBell, true)
	const twoPhase = "BEGIN; INSERT INTO public.outbox (topic, uuid) VALUES ('t', 'u'); PREPARE TRANSACTION 'one'"
	_, err := pool.Exec(t.Context(), twoPhase)
	require.ErrorContains(t, err, "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY")
	for _, m := range pgsql.Migrations(plain) {
		if m.Version == pgsql.DoorbellVersion {
			execute(t, pool, m.Down)
		}
	}
	execute(t, pool, twoPhase)
	require.Zero(t, scan[int](t, pool, "SELECT count(*) FROM public.outbox"))
	execute(t, pool, "COMMIT PREPARED 'one'")
	require.Equal(t, 1, scan[int](t, pool, "SELECT count(*) FROM public.outbox"))
}
