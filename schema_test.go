package outbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// nastyNames are accepted, and must work as they stand.
var nastyNames = []outbox.Schema{
	{},
	{Name: "my-schema", Table: "my-outbox"},
	{Name: "Shop", Table: "OutBox"},
	{Name: `quo"ted`, Table: `x"; DROP TABLE y; --`},
	{Name: "it's", Table: `back\slash' || '`},
	{Name: "two words", Table: " "},
	{Name: "$1", Table: "{dead}"},
	{Name: "$outbox$", Table: "$outbox_$$outbox$"},
	{Name: "select", Table: "table"},
	{Name: "bücher", Table: "заказы"},
	{Name: "line\nfeed", Table: "/* comment\n--"},
	{Name: "a.b", Table: "c.d"},
	{Name: strings.Repeat("s", 63), Table: strings.Repeat("t", 52)},
	{Name: strings.Repeat("ü", 31), Table: strings.Repeat("ü", 26)},
}

func TestZeroSchemaIsPublicOutbox(t *testing.T) {
	t.Parallel()
	require.NoError(t, outbox.Schema{}.Validate())
	require.Equal(t, `"public"."outbox"`, outbox.Schema{}.String())
}

func TestStringQuotesBothNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, `"my-schema"."My-Outbox""x"`, outbox.Schema{Name: "my-schema", Table: `My-Outbox"x`}.String())
}

func TestNamesThatPostgreSQLCannotStoreAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema outbox.Schema
		says   []string
	}{
		"schema too long":       {outbox.Schema{Name: strings.Repeat("s", 64)}, []string{"Schema.Name", "64 bytes", "at most 63"}},
		"table too long":        {outbox.Schema{Table: strings.Repeat("t", 53)}, []string{"Schema.Table", "53 bytes", "at most 52"}},
		"length is in bytes":    {outbox.Schema{Table: strings.Repeat("ü", 27)}, []string{"Schema.Table", "54 bytes"}},
		"NUL":                   {outbox.Schema{Name: "a\x00b"}, []string{"Schema.Name", "NUL"}},
		"not UTF-8":             {outbox.Schema{Table: "a\xffb"}, []string{"Schema.Table", "UTF-8"}},
		"reserved":              {outbox.Schema{Name: "pg_outbox"}, []string{"Schema.Name", "pg_"}},
		"both, and all at once": {outbox.Schema{Name: "a\x00b", Table: "a\xffb"}, []string{"Schema.Name", "Schema.Table"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.schema.Validate()
			for _, text := range append(c.says, "outbox: ") {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestRefusedNamesReachNoServer(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nobody-listens-here")
	require.NoError(t, err)
	defer pool.Close()
	bad := outbox.Schema{Table: strings.Repeat("t", 53)}
	want := bad.Validate().Error()
	_, migrationsErr := outbox.Migrations(bad)
	_, grantsErr := outbox.Grants(bad, outbox.RoleWriter, "app")
	_, statsErr := outbox.ReadStats(t.Context(), pool, bad)
	for _, err := range []error{
		outbox.Migrate(t.Context(), pool, bad), outbox.MigrateDown(t.Context(), pool, bad), outbox.CheckSchema(t.Context(), pool, bad),
		migrationsErr, grantsErr, statsErr,
	} {
		require.EqualError(t, err, want)
	}
}

// Any accepted name: all migrations up, the relations under the very names that were asked for, and down again.
func FuzzNames(f *testing.F) {
	for _, s := range nastyNames {
		f.Add(s.Name, s.Table)
	}
	pool := testdb.New(f)
	f.Fuzz(func(t *testing.T, name, table string) {
		schema := outbox.Schema{Name: name, Table: table}
		migrations, err := outbox.Migrations(schema)
		if err != nil {
			require.Error(t, schema.Validate())
			return
		}
		if name == "" {
			name = "public"
		}
		if table == "" {
			table = "outbox"
		}
		rollback := errors.New("rollback")
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			var create string
			require.NoError(t, tx.QueryRow(t.Context(), "SELECT format('CREATE SCHEMA IF NOT EXISTS %I', $1::text)", name).Scan(&create))
			_, err := tx.Exec(t.Context(), create)
			require.NoError(t, err)
			before := relations(t, tx, name)
			for _, m := range migrations {
				_, err := tx.Exec(t.Context(), m.SQL)
				require.NoError(t, err, m.Name)
			}
			after := relations(t, tx, name)
			for _, suffix := range []string{"", "_dead", "_inbox", "_doorbell", "_migrations"} {
				require.Contains(t, after, table+suffix)
			}
			_, err = tx.Exec(t.Context(), "INSERT INTO "+schema.String()+" (topic, uuid) VALUES ('t', 'u')")
			require.NoError(t, err)
			for i := range migrations {
				m := migrations[len(migrations)-1-i]
				_, err := tx.Exec(t.Context(), m.Down)
				require.NoError(t, err, m.Name)
			}
			require.Equal(t, before, relations(t, tx, name))
			return rollback
		})
		require.ErrorIs(t, err, rollback)
	})
}

type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// relations lists what a PostgreSQL schema holds: tables, sequences, indexes, functions.
func relations(t *testing.T, q queryer, schema string) []string {
	t.Helper()
	rows, err := q.Query(t.Context(), `
		SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1
		UNION ALL
		SELECT p.proname::text || '()' FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1
		ORDER BY 1`, schema)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}
