package outbox_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMigrateAgainNeedsNoMoreThanReading(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	owner := testdb.Open(t, url)
	schema := outbox.Schema{Name: "shop", TopicIndex: true}
	require.NoError(t, outbox.Migrate(t.Context(), owner, schema))
	name, roleURL := testdb.Role(t, url)
	grants, err := outbox.Grants(schema, outbox.RoleForwarder, name)
	require.NoError(t, err)
	execute(t, owner, grants, `ALTER ROLE `+pgx.Identifier{name}.Sanitize()+` SET default_transaction_read_only = on`)

	require.NoError(t, outbox.Migrate(t.Context(), testdb.Open(t, roleURL), schema))
	require.NoError(t, outbox.MigrateSQL(t.Context(), openSQL(t, "postgres", roleURL), schema))
}

func TestMigrateIntoASchemaThatIsThereNeedsNoRightOnTheDatabase(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	owner := testdb.Open(t, url)
	name, roleURL := testdb.Role(t, url)
	role := pgx.Identifier{name}.Sanitize()
	pool := testdb.Open(t, roleURL)

	err := outbox.Migrate(t.Context(), pool, outbox.Schema{Name: "shop"})
	require.ErrorContains(t, err, "permission denied for database")
	execute(t, owner, "CREATE SCHEMA shop", "GRANT USAGE, CREATE ON SCHEMA shop TO "+role)
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{Name: "shop"}))
	require.NoError(t, outbox.CheckSchema(t.Context(), pool, outbox.Schema{Name: "shop"}), "the owner needs no grants")
}

func TestMigrateWithoutTheRightToCreateSaysSo(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	execute(t, testdb.Open(t, url), "CREATE SCHEMA shop")
	_, roleURL := testdb.Role(t, url)
	err := outbox.Migrate(t.Context(), testdb.Open(t, roleURL), outbox.Schema{Name: "shop"})
	require.ErrorContains(t, err, `outbox: migration 1 (outbox) of "shop"."outbox"`)
	require.ErrorContains(t, err, "permission denied for schema shop")
}
