package pgsql_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestLocksAndChannelsOfTwoOutboxesDiffer(t *testing.T) {
	t.Parallel()
	list := []pgsql.Names{
		{Schema: "public", Table: "outbox"}, {Schema: "shop", Table: "outbox"}, {Schema: "public", Table: "outbox2"},
		{Schema: "a.b", Table: "c"}, {Schema: "a", Table: "b.c"}, {Schema: "a", Table: "bc"}, {Schema: "ab", Table: "c"},
		{Schema: "public", Table: "Outbox"},
	}
	locks, channels := map[int32]bool{}, map[string]bool{}
	for _, names := range list {
		locks[names.LockClass()], channels[names.Channel()] = true, true
		require.LessOrEqual(t, len(names.Channel()), pgsql.MaxIdentifier)
		require.Regexp(t, "^[a-z0-9_]+$", names.Channel(), "the same with and without quotes")
	}
	require.Len(t, locks, len(list))
	require.Len(t, channels, len(list))
}

func TestDerivedNamesFitAndDiffer(t *testing.T) {
	t.Parallel()
	names := nasty[2]
	require.Len(t, names.Table+"_migrations", pgsql.MaxIdentifier)
	pool := testdb.New(t)
	migrate(t, pool, names)
	require.Equal(t, pgsql.MaxIdentifier,
		scan[int](t, pool, "SELECT max(octet_length(relname)) FROM pg_class WHERE relnamespace = 'public'::regnamespace"))
}

func TestLiteralsMeanTheSameWhateverTheServersSettingOfBackslashes(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"on", "off"} {
		url := testdb.URL(t)
		pool := testdb.Open(t, url)
		execute(t, pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = `+setting+`', current_database()); END $$`)
		names := pgsql.Names{Schema: `it's a \ b`, Table: `\' || '\\`}
		changed := testdb.Open(t, url)
		migrate(t, changed, names)
		execute(t, changed, "INSERT INTO "+names.Relation("outbox")+" (topic, uuid) VALUES ('t', 'u')")
		require.True(t, scan[bool](t, changed, "SELECT count(*) = 1 FROM "+names.Relation("outbox")+" WHERE id = 1"))
		installed, err := changed.Query(t.Context(), pgsql.Render(names).Installed)
		require.NoError(t, err)
		require.True(t, installed.Next())
		var namespace, table bool
		require.NoError(t, installed.Scan(&namespace, &table))
		installed.Close()
		require.True(t, namespace && table)
	}
}

func TestRefusalIsReadAsTheReasonThatItFailsWith(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	for _, reason := range []string{"", "plain", "it's", `a \ b`, `'\''\\'`, "two\nlines; END $outbox$", "$outbox_$ BEGIN RAISE",
		pgsql.Refusal("another's reason"), pgsql.Refusal(`a\b`)} {
		refusal := pgsql.Refusal(reason)
		read, refused := pgsql.Refused(refusal)
		require.True(t, refused, reason)
		require.Equal(t, reason, read)
		_, err := pool.Exec(t.Context(), refusal)
		require.ErrorContains(t, err, reason)
	}
	names := pgsql.Names{Schema: strings.TrimPrefix(pgsql.Refusal("a name"), "DO "), Table: pgsql.Refusal("a name")}
	statements := pgsql.Render(names)
	for _, statement := range []string{"", "DO ", statements.Take, statements.DeleteTaken, statements.SettleHolding(1), statements.Nothing} {
		_, refused := pgsql.Refused(statement)
		require.False(t, refused, statement)
	}
}
