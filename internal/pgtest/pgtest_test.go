package pgtest_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
)

func query[T any](t *testing.T, server *pgtest.Server, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var value T
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	return value
}

func start(t *testing.T, settings ...string) *pgtest.Server {
	t.Helper()
	server, err := pgtest.Run(t.Context(), settings...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	return server
}

func TestExtraSettingsWin(t *testing.T) {
	t.Parallel()
	require.Equal(t, "7", query[string](t, start(t, "max_connections=7", "max_wal_senders=1"), "SHOW max_connections"))
}

func TestRestartAndKillKeepDataAndPort(t *testing.T) {
	t.Parallel()
	server := start(t)
	port, started := server.Port(), query[time.Time](t, server, "SELECT pg_postmaster_start_time()")
	require.NotZero(t, port)
	require.Equal(t, 1, query[int](t, server, "SELECT 1 FROM pg_create_physical_replication_slot('kept')"))

	require.NoError(t, server.Restart(t.Context()))
	require.Equal(t, 1, query[int](t, server, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'kept'"))
	require.NotEqual(t, started, query[time.Time](t, server, "SELECT pg_postmaster_start_time()"))

	require.NoError(t, server.Kill())
	_, err := pgx.Connect(t.Context(), server.URL)
	require.Error(t, err)
	require.NoError(t, server.Kill(), "a second time does nothing")
	require.NoError(t, server.Restart(t.Context()))
	require.Equal(t, 1, query[int](t, server, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'kept'"))
	require.Equal(t, port, server.Port())
}

func TestStopRemovesTheFilesAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	server := start(t)
	data := query[string](t, server, "SHOW data_directory")
	require.DirExists(t, data)
	require.NoError(t, server.Stop())
	require.NoDirExists(t, filepath.Dir(data))
	require.NoError(t, server.Stop())
}

func TestSettingThatTheServerRefusesIsShown(t *testing.T) {
	t.Parallel()
	_, err := pgtest.Run(t.Context(), "shared_buffers=nonsense")
	require.ErrorContains(t, err, "shared_buffers")
}

func TestForeignServerIsNeitherRestartedNorStopped(t *testing.T) {
	own := start(t)
	t.Setenv("DATABASE_URL", own.URL)
	server, err := pgtest.Start(t.Context())
	require.NoError(t, err)
	require.Equal(t, own.URL, server.URL)
	require.Equal(t, own.Address(), server.Address())
	require.Equal(t, own.Port(), server.Port())
	require.ErrorIs(t, server.Restart(t.Context()), pgtest.ErrForeign)
	require.ErrorIs(t, server.Kill(), pgtest.ErrForeign)
	require.NoError(t, server.Stop())
	require.Equal(t, 1, query[int](t, own, "SELECT 1"))
}

func TestFolderNamedByPGBINMustHoldTheBinaries(t *testing.T) {
	t.Setenv("PGBIN", t.TempDir())
	_, err := pgtest.Run(t.Context())
	require.ErrorContains(t, err, "$PGBIN")
}
