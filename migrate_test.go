package outbox_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func execute(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}

func versions(t *testing.T, pool *pgxpool.Pool, table string) []int {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT version FROM "+table+" ORDER BY version")
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return list
}

func TestManyMigrateAnEmptyDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	schema := outbox.Schema{Name: "shop", TopicIndex: true}
	// Defaults under which what the winner committed would stay unseen, or nothing could be written.
	execute(t, testdb.Open(t, url), `DO $$ BEGIN EXECUTE format(
		'ALTER DATABASE %1$I SET default_transaction_isolation = ''serializable''; ALTER DATABASE %1$I SET default_transaction_read_only = on',
		current_database()); END $$`)
	const processes = 12
	migrations := make([]func(context.Context) error, processes)
	for i := range migrations {
		switch i % 3 {
		case 0:
			pool := testdb.Open(t, url)
			migrations[i] = func(ctx context.Context) error { return outbox.Migrate(ctx, pool, schema) }
		case 1:
			db := openSQL(t, "postgres", url)
			migrations[i] = func(ctx context.Context) error { return outbox.MigrateSQL(ctx, db, schema) }
		default:
			db := openSQL(t, "pgx", url)
			migrations[i] = func(ctx context.Context) error { return outbox.MigrateSQL(ctx, db, schema) }
		}
	}
	require.NoError(t, atOnce(t, migrations...))
	pool := testdb.Open(t, url)
	require.NoError(t, outbox.CheckSchema(t.Context(), pool, schema))
	require.Equal(t, []int{1, 2, 3}, versions(t, pool, "shop.outbox_migrations"))
}

func TestTwoOutboxesCreateTheirCommonSchemaAtOnce(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	var migrations []func(context.Context) error
	for _, table := range []string{"orders", "invoices", "orders2", "invoices2"} {
		pool := testdb.Open(t, url)
		migrations = append(migrations, func(ctx context.Context) error {
			return outbox.Migrate(ctx, pool, outbox.Schema{Name: "common", Table: table})
		})
	}
	require.NoError(t, atOnce(t, migrations...))
}

// atOnce calls all of them together and gives the first error.
func atOnce(t *testing.T, calls ...func(context.Context) error) error {
	t.Helper()
	start, errs := make(chan struct{}), make(chan error, len(calls))
	for _, call := range calls {
		go func() {
			<-start
			errs <- call(t.Context())
		}()
	}
	close(start)
	var first error
	for range calls {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

func TestMigrateUpDownUp(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	for _, schema := range nastyNames {
		schema.TopicIndex = true
		name := schema.Name
		if name == "" {
			name = "public"
		}
		require.NoError(t, outbox.Migrate(t.Context(), pool, schema))
		up := relations(t, pool, name)
		require.NotEmpty(t, up)
		require.NoError(t, outbox.CheckSchema(t.Context(), pool, schema))
		execute(t, pool, "INSERT INTO "+schema.String()+" (topic, uuid) VALUES ('t', 'u')")

		require.NoError(t, outbox.MigrateDown(t.Context(), pool, schema))
		require.Empty(t, relations(t, pool, name), "%q", name)
		require.ErrorIs(t, outbox.CheckSchema(t.Context(), pool, schema), outbox.ErrSchemaVersion)
		require.NoError(t, outbox.MigrateDown(t.Context(), pool, schema), "nothing left to do")

		require.NoError(t, outbox.Migrate(t.Context(), pool, schema))
		require.Equal(t, up, relations(t, pool, name))
		stats, err := outbox.ReadStats(t.Context(), pool, schema)
		require.NoError(t, err)
		require.Zero(t, stats)
	}
}

func TestMigrateTakesOptionalStepsAsAskedAndLeavesThoseThatAreThere(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	for _, c := range []struct {
		schema outbox.Schema
		want   []int
	}{
		{outbox.Schema{NoDoorbell: true}, []int{1}},
		{outbox.Schema{NoDoorbell: true, TopicIndex: true}, []int{1, 3}},
		{outbox.Schema{}, []int{1, 2, 3}},
		{outbox.Schema{NoDoorbell: true}, []int{1, 2, 3}},
	} {
		require.NoError(t, outbox.Migrate(t.Context(), pool, c.schema))
		require.Equal(t, c.want, versions(t, pool, "public.outbox_migrations"))
		require.NoError(t, outbox.CheckSchema(t.Context(), pool, c.schema))
	}
	require.NoError(t, outbox.MigrateDown(t.Context(), pool, outbox.Schema{NoDoorbell: true}))
	require.Empty(t, relations(t, pool, "public"))
}

func TestMigrateOfANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{}))
	execute(t, pool, "INSERT INTO public.outbox_migrations (version, name) VALUES (1000, 'of the future')")
	for _, err := range []error{
		outbox.Migrate(t.Context(), pool, outbox.Schema{TopicIndex: true}), outbox.MigrateDown(t.Context(), pool, outbox.Schema{}),
		outbox.CheckSchema(t.Context(), pool, outbox.Schema{}),
	} {
		require.ErrorIs(t, err, outbox.ErrSchemaVersion)
		require.ErrorContains(t, err, "[1000]")
	}
	require.Equal(t, []int{1, 2, 1000}, versions(t, pool, "public.outbox_migrations"))
}

func TestFailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	execute(t, pool, "CREATE TABLE public.outbox_inbox (of_someone_else int)")
	err := outbox.Migrate(t.Context(), pool, outbox.Schema{})
	require.ErrorContains(t, err, `"outbox_inbox" already exists`)
	require.Equal(t, []string{"outbox_inbox"}, relations(t, pool, "public"))
}

func TestMigrationsAsPlainSQLLeaveWhatMigrateLeaves(t *testing.T) {
	t.Parallel()
	schema := outbox.Schema{Name: "Shop", Table: "my-outbox", TopicIndex: true}
	byLibrary := testdb.New(t)
	require.NoError(t, outbox.Migrate(t.Context(), byLibrary, schema))

	url := testdb.URL(t)
	byHand, db := testdb.Open(t, url), openSQL(t, "postgres", url)
	execute(t, byHand, `CREATE SCHEMA "Shop"`)
	migrations, err := outbox.Migrations(schema)
	require.NoError(t, err)
	require.Len(t, migrations, 3)
	for i, m := range migrations {
		require.Equal(t, i+1, m.Version)
		require.Equal(t, i > 0, m.Optional)
		_, err := db.ExecContext(t.Context(), m.SQL)
		require.NoError(t, err)
	}
	require.Equal(t, relations(t, byLibrary, "Shop"), relations(t, byHand, "Shop"))
	require.NoError(t, outbox.CheckSchema(t.Context(), byHand, schema))
	require.NoError(t, outbox.Migrate(t.Context(), byHand, schema))
	require.Equal(t, []int{1, 2, 3}, versions(t, byHand, `"Shop"."my-outbox_migrations"`))
}
