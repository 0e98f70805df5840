package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	settings := []string{"--database", url, "--schema", "Shop", "--table", "out box", "--no-doorbell", "--topic-index"}
	with := func(args ...string) *call { return newCall(append(args, settings...)...) }

	c := with("migrate", "status", "--json").ends(t, ExitSchema)
	require.Contains(t, c.stderr.String(), "outbox: Shop.out box: outbox: the schema does not fit this library")
	require.Contains(t, c.stdout.String(), `"applied": false`)

	require.Equal(t, "Shop.out box: 2 migrations applied.\n", with("migrate", "up").ends(t, ExitOK).stdout.String())
	require.Equal(t, "Shop.out box: nothing to do, there are 2 migrations.\n", with("migrate", "up").ends(t, ExitOK).stdout.String())
	require.NoError(t, outbox.CheckSchema(t.Context(), testdb.Open(t, url), outbox.Schema{Name: "Shop", Table: "out box"}))

	var list []migrationsJSON
	require.NoError(t, json.Unmarshal([]byte(with("migrate", "status", "--json").ends(t, ExitOK).stdout.String()), &list))
	require.Equal(t, []migrationsJSON{{
		Name: "Shop.out box", Table: `"Shop"."out box"`, Fits: true, Migrations: []migrationJSON{
			{1, "outbox", false, true}, {2, "doorbell", true, false}, {3, "topic_index", true, true},
		},
	}}, list)
	require.Regexp(t, `Shop.out box +2  doorbell +left out\n`, with("migrate", "status").ends(t, ExitOK).stdout.String())
}

func TestMigrateEveryOutboxOfAFile(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	file := write(t, "outbox.yaml", "database: "+url+"\noutboxes:\n  - {table: a}\n  - {table: b, name: second}\n")
	require.Equal(t, "second: 2 migrations applied.\n", run(t, "migrate", "up", "-c", file, "--outbox", "second"))
	require.Equal(t, "public.a: 2 migrations applied.\nsecond: nothing to do, there are 2 migrations.\n",
		run(t, "migrate", "up", "-c", file))
	c := newCall("migrate", "up", "-c", file, "--outbox", "secnod").ends(t, ExitUsage)
	require.Contains(t, c.stderr.String(), `did you mean "second"?`)
}

// The printed SQL does what "migrate up" does, and "migrate up" knows that it was done.
func TestPrintedMigrations(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	sql := run(t, "migrate", "print", "--schema", "shop", "--topic-index")
	_, err := pool.Exec(t.Context(), sql)
	require.NoError(t, err)
	require.Contains(t, run(t, "migrate", "up", "--database", url, "--schema", "shop", "--topic-index"), "nothing to do, there are 3 migrations")

	_, err = pool.Exec(t.Context(), run(t, "migrate", "print", "--schema", "shop", "--topic-index", "--down"))
	require.NoError(t, err)
	require.Equal(t, 0, count(t, pool, "pg_catalog.pg_tables WHERE schemaname = 'shop'"))
	require.NotContains(t, run(t, "migrate", "print", "--no-doorbell"), "doorbell\n")
	require.NotContains(t, run(t, "migrate", "print"), "CREATE SCHEMA")
}

func TestMigrationsAsFiles(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "migrations")
	names := func(pattern string) (names []string) {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			names = append(names, filepath.Base(path))
		}
		return names
	}
	run(t, "migrate", "print", "--format", "goose", "--dir", folder, "--first", "7")
	require.Equal(t, []string{"00007_outbox_outbox.sql", "00008_outbox_doorbell.sql"}, names("*"))
	content, err := os.ReadFile(filepath.Join(folder, "00008_outbox_doorbell.sql"))
	require.NoError(t, err)
	require.Regexp(t, `(?s)^-- \+goose Up\n-- \+goose StatementBegin\n.*\n-- \+goose StatementEnd\n\n-- \+goose Down\n-- \+goose StatementBegin\n.*\n-- \+goose StatementEnd\n$`, string(content))

	run(t, "migrate", "print", "--format", "migrate", "--dir", folder)
	require.Equal(t, []string{"00001_outbox_outbox.down.sql", "00001_outbox_outbox.up.sql", "00002_outbox_doorbell.down.sql", "00002_outbox_doorbell.up.sql"}, names("0000[12]*"))
	newCall("migrate", "print", "--format", "migrate", "--dir", folder).ends(t, ExitFailure) // never over what is there
	newCall("migrate", "print", "--format", "goose").ends(t, ExitUsage)
	newCall("migrate", "print", "--format", "flyway").ends(t, ExitUsage)
}

func TestGrantsAreEnough(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	ledger := newLedger(t, nil)
	as := func(role string) string {
		name, roleURL := testdb.Role(t, url)
		_, err := pool.Exec(t.Context(), run(t, "grants", "--role", role, "--to", name))
		require.NoError(t, err)
		return roleURL
	}
	newCall("publish", "--database", as("writer"), "--topic", "orders").stdin("1\n2\n").ends(t, ExitOK)
	forwarder := as("forwarder")
	run(t, "migrate", "status", "--database", forwarder)
	run(t, "forward", "--database", forwarder, "--broker", ledger.url, "--once")
	require.ElementsMatch(t, []string{"1", "2"}, ledger.payloads())
	operator := as("operator")
	run(t, "status", "--database", operator)
	run(t, "dead", "requeue", "--database", operator, "--all", "--yes")

	c := newCall("publish", "--database", operator, "--topic", "orders").stdin("1\n").ends(t, ExitFailure)
	require.Contains(t, c.stderr.String(), "permission denied")
	c = newCall("grants", "--role", "forwarders", "--to", "x").ends(t, ExitUsage)
	require.Contains(t, c.stderr.String(), `did you mean "forwarder"?`)
}
