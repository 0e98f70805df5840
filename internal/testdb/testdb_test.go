package testdb_test

import (
	"database/sql"
	"testing"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestEachDatabaseIsEmptyAndHasNoSearchPath(t *testing.T) {
	t.Parallel()
	for range 2 {
		pool := testdb.New(t)
		_, err := pool.Exec(t.Context(), "CREATE TABLE public.t ()")
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), "SELECT * FROM t")
		require.ErrorContains(t, err, `relation "t" does not exist`)
	}
}

func TestURLServesOtherDrivers(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("postgres", testdb.URL(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var path string
	require.NoError(t, db.QueryRow("SHOW search_path").Scan(&path))
	require.Equal(t, `""`, path)
}

func TestDatabaseIsDroppedAtTheEndOfItsTest(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("in use to the last", func(t *testing.T) {
		require.NoError(t, testdb.New(t).QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
	})
	var n int
	require.NoError(t, testdb.New(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname = $1", name).Scan(&n))
	require.Zero(t, n)
}

func TestDedicatedServerTakesSettings(t *testing.T) {
	t.Parallel()
	pool := testdb.Open(t, testdb.Dedicated(t, "work_mem=5MB").URL)
	var value string
	require.NoError(t, pool.QueryRow(t.Context(), "SHOW work_mem").Scan(&value))
	require.Equal(t, "5MB", value)
}
