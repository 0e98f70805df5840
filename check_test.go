package outbox_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestCheckSchemaRefusesWhatWouldLoseMessages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		says   []string
	}{
		"no tables":       {`DROP SCHEMA "Shop" CASCADE`, []string{`"Shop"."outbox_migrations" is not there`, "run Migrate"}},
		"an older schema": {`DELETE FROM "Shop".outbox_migrations WHERE version = 1`, []string{"lacks migrations [1]", "run Migrate"}},
		"a newer schema": {
			`INSERT INTO "Shop".outbox_migrations (version, name) VALUES (77, 'new')`,
			[]string{"migrations [77]", "use a newer one"},
		},
		"a table dropped by hand": {`DROP TABLE "Shop".outbox_dead`, []string{`table "Shop"."outbox_dead" is not there`}},
		"ids drawn in blocks": {
			`ALTER SEQUENCE "Shop".outbox_id_seq CACHE 20`,
			[]string{"CACHE 20", `ALTER SEQUENCE "Shop"."outbox_id_seq" INCREMENT 1 CACHE 1 NO CYCLE`},
		},
		"ids drawn in steps":     {`ALTER SEQUENCE "Shop".outbox_id_seq INCREMENT 2`, []string{"INCREMENT 2"}},
		"ids drawn backwards":    {`ALTER SEQUENCE "Shop".outbox_id_seq INCREMENT -1 MINVALUE -10 START 1`, []string{"INCREMENT -1"}},
		"ids that start again":   {`ALTER SEQUENCE "Shop".outbox_id_seq CYCLE`, []string{"CYCLE true"}},
		"an unlogged table":      {`ALTER TABLE "Shop".outbox SET UNLOGGED`, []string{`ALTER TABLE "Shop"."outbox" SET LOGGED`}},
		"unlogged dead letters":  {`ALTER TABLE "Shop".outbox_dead SET UNLOGGED`, []string{`ALTER TABLE "Shop"."outbox_dead" SET LOGGED`}},
		"two problems, all said": {`ALTER SEQUENCE "Shop".outbox_id_seq CACHE 20; DROP TABLE "Shop".outbox_dead`, []string{"CACHE 20", "outbox_dead"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, schema := testdb.New(t), outbox.Schema{Name: "Shop"}
			require.NoError(t, outbox.Migrate(t.Context(), pool, schema))
			require.NoError(t, outbox.CheckSchema(t.Context(), pool, schema))
			execute(t, pool, c.change)
			err := outbox.CheckSchema(t.Context(), pool, schema)
			require.ErrorIs(t, err, outbox.ErrSchemaVersion)
			for _, text := range append(c.says, "outbox: ") {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

// forwarderRole gives pools of the owner and of a role with a forwarder's grants.
func forwarderRole(t *testing.T, schema outbox.Schema) (owner, pool *pgxpool.Pool, role string) {
	t.Helper()
	url := testdb.URL(t)
	owner = testdb.Open(t, url)
	require.NoError(t, outbox.Migrate(t.Context(), owner, schema))
	name, roleURL := testdb.Role(t, url)
	grants, err := outbox.Grants(schema, outbox.RoleForwarder, name)
	require.NoError(t, err)
	execute(t, owner, grants)
	pool = testdb.Open(t, roleURL)
	require.NoError(t, outbox.CheckSchema(t.Context(), pool, schema))
	return owner, pool, pgx.Identifier{name}.Sanitize()
}

func TestCheckSchemaSeesRowLevelSecurityThatHidesRows(t *testing.T) {
	t.Parallel()
	schema := outbox.Schema{Name: "shop"}
	owner, pool, role := forwarderRole(t, schema)
	for _, table := range []string{"outbox", "outbox_dead", "outbox_migrations"} {
		execute(t, owner, "ALTER TABLE shop."+table+" ENABLE ROW LEVEL SECURITY")
		err := outbox.CheckSchema(t.Context(), pool, schema)
		require.ErrorIs(t, err, outbox.ErrSchemaVersion)
		require.ErrorContains(t, err, `row-level security hides rows of the table "shop"."`+table+`"`)
		require.NoError(t, outbox.CheckSchema(t.Context(), owner, schema), "the owner sees all")
		execute(t, owner, "ALTER TABLE shop."+table+" DISABLE ROW LEVEL SECURITY")
	}
	execute(t, owner, "ALTER TABLE shop.outbox ENABLE ROW LEVEL SECURITY", "ALTER ROLE "+role+" BYPASSRLS")
	require.NoError(t, outbox.CheckSchema(t.Context(), pool, schema))
}

func TestCheckSchemaNamesTheMissingGrant(t *testing.T) {
	t.Parallel()
	schema := outbox.Schema{Name: "shop"}
	owner, pool, role := forwarderRole(t, schema)
	for object, privileges := range map[string][]string{
		`SCHEMA "shop"`:                     {"USAGE"},
		`TABLE "shop"."outbox_migrations"`:  {"SELECT"},
		`TABLE "shop"."outbox"`:             {"SELECT", "UPDATE", "DELETE"},
		`TABLE "shop"."outbox_dead"`:        {"SELECT", "INSERT"},
		`SEQUENCE "shop"."outbox_id_seq"`:   {"SELECT"},
		`SEQUENCE "shop"."outbox_doorbell"`: {"SELECT", "UPDATE"},
	} {
		for _, privilege := range privileges {
			execute(t, owner, "REVOKE "+privilege+" ON "+object+" FROM "+role)
			err := outbox.CheckSchema(t.Context(), pool, schema)
			require.ErrorIs(t, err, outbox.ErrSchemaVersion)
			grant := "GRANT " + privilege + " ON " + object + " TO " + role + ";"
			require.ErrorContains(t, err, grant)
			execute(t, owner, grant)
			require.NoError(t, outbox.CheckSchema(t.Context(), pool, schema))
		}
	}
}

func TestCheckSchemaWantsNothingOfADoorbellThatIsNotThere(t *testing.T) {
	t.Parallel()
	schema := outbox.Schema{Name: "shop"}
	owner, pool, role := forwarderRole(t, schema)
	execute(t, owner, "REVOKE ALL ON SEQUENCE shop.outbox_doorbell FROM "+role)
	require.ErrorContains(t, outbox.CheckSchema(t.Context(), pool, schema), "outbox_doorbell")
	execute(t, owner, "ALTER TABLE shop.outbox DISABLE TRIGGER outbox_ring")
	require.NoError(t, outbox.CheckSchema(t.Context(), pool, schema))
	forwarderRole(t, outbox.Schema{Name: "shop", NoDoorbell: true})
}

func TestCheckSchemaOnlyReads(t *testing.T) {
	t.Parallel()
	_, pool, _ := forwarderRole(t, outbox.Schema{})
	config := pool.Config()
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	readOnly, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer readOnly.Close()
	require.NoError(t, outbox.CheckSchema(t.Context(), readOnly, outbox.Schema{}))
}

func TestCheckSchemaThatCannotBeMadeIsNoVerdict(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nobody-listens-here")
	require.NoError(t, err)
	defer pool.Close()
	err = outbox.CheckSchema(t.Context(), pool, outbox.Schema{})
	require.ErrorContains(t, err, "outbox: checking")
	require.NotErrorIs(t, err, outbox.ErrSchemaVersion)
}
