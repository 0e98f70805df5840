package outbox

import (
	"database/sql"
	"testing"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestConsumerIsCheckedForItsOwnNeeds(t *testing.T) {
	t.Parallel()
	schema := Schema{Name: "shop"}
	url := testdb.URL(t)
	owner := testdb.Open(t, url)
	require.NoError(t, Migrate(t.Context(), owner, schema))
	name, roleURL := testdb.Role(t, url)
	db, err := sql.Open("postgres", roleURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	check := func(role Role) error {
		_, err := inspectSchemaAs(t.Context(), sqlDatabase{db}, schema, role)
		return err
	}

	require.ErrorContains(t, check(RoleConsumer), `GRANT SELECT, INSERT, DELETE ON TABLE "shop"."outbox_inbox"`)
	grants, err := Grants(schema, RoleConsumer, name)
	require.NoError(t, err)
	_, err = owner.Exec(t.Context(), grants)
	require.NoError(t, err)
	require.NoError(t, check(RoleConsumer))
	require.ErrorContains(t, check(RoleForwarder), `GRANT SELECT, UPDATE, DELETE ON TABLE "shop"."outbox"`)

	_, err = owner.Exec(t.Context(), "ALTER TABLE shop.outbox_inbox ENABLE ROW LEVEL SECURITY")
	require.NoError(t, err)
	require.ErrorIs(t, check(RoleConsumer), ErrSchemaVersion)
}
