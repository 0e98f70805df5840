package pgsql_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// nasty names hold whatever could end a quote, a comment or a placeholder.
var nasty = []pgsql.Names{
	{Schema: `My-Schema"`, Table: `it's "x" \' {dead} $1 -- $outbox$`},
	{Schema: "$outbox_$", Table: "/* ; */\n{schema_literal}$outbox$"},
	{Schema: "public", Table: strings.Repeat("t", pgsql.MaxIdentifier-pgsql.LongestSuffix())},
}

// migrate takes all steps up.
func migrate(t *testing.T, pool *pgxpool.Pool, names pgsql.Names) {
	t.Helper()
	execute(t, pool, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{names.Schema}.Sanitize())
	for _, m := range pgsql.Migrations(names) {
		execute(t, pool, m.Up)
	}
}

func execute(t *testing.T, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), statement, args...)
	require.NoError(t, err, statement)
}

func scan[T any](t *testing.T, pool *pgxpool.Pool, query string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), query, args...)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err, query)
	return value
}
