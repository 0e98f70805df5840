package pgsql_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

var plain = pgsql.Names{Schema: "public", Table: "outbox"}

// arrayLiteral writes texts as PostgreSQL reads an array: JSON's escapes of quote and backslash are the same.
func arrayLiteral(t *testing.T, texts []string) string {
	t.Helper()
	quoted, err := json.Marshal(texts)
	require.NoError(t, err)
	return "{" + strings.TrimSuffix(strings.TrimPrefix(string(quoted), "["), "]") + "}"
}

func TestTriggerGivesTheLaneThatTheInsertComputes(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	migrate(t, pool, plain)
	s := pgsql.Render(plain)
	keys := []string{"", "", "a", "A", " a", "ß", "Straße", "日本", "é", "e\u0301", `"\`, strings.Repeat("k", 2048)}
	for i := range 200 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	for i, key := range keys {
		uuid := fmt.Sprint("uuid ", i)
		for _, topic := range []string{"by trigger", "by insert", "by insert of one"} {
			switch topic {
			case "by trigger":
				execute(t, pool, "INSERT INTO public.outbox (topic, key, uuid) VALUES ($1, $2, $3)", topic, key, uuid)
			case "by insert":
				execute(t, pool, s.Insert, topic, arrayLiteral(t, []string{key}), arrayLiteral(t, []string{uuid}), []byte(nil), "{1}", "{-1}", `{"{}"}`, "{0}", "{0}")
			default:
				execute(t, pool, s.InsertOne, topic, key, uuid, []byte(nil), "{}", 0, 0)
			}
		}
	}
	require.Equal(t, len(keys), scan[int](t, pool, "SELECT count(DISTINCT uuid) FROM public.outbox"))
	require.Zero(t, scan[int](t, pool, `SELECT count(*) FROM (
		SELECT 1 FROM public.outbox GROUP BY uuid HAVING count(*) <> 3 OR min(lane) <> max(lane)) differing`))
	require.Greater(t, scan[int](t, pool, "SELECT count(DISTINCT lane) FROM public.outbox"), 50)
	require.NotEqual(t, scan[int](t, pool, "SELECT min(lane) FROM public.outbox WHERE uuid = 'uuid 0'"),
		scan[int](t, pool, "SELECT min(lane) FROM public.outbox WHERE uuid = 'uuid 1'"), "no key: spread by uuid")
}

func TestPublicationForAllTablesStopsNoStatement(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	migrate(t, pool, plain)
	execute(t, pool, "CREATE PUBLICATION everything FOR ALL TABLES")
	for _, statement := range []string{
		"INSERT INTO public.outbox (topic, uuid) SELECT 't', n::text FROM generate_series(1, 10) n",
		"UPDATE public.outbox SET attempts = 1, holds = true, next_attempt_at = 'infinity' WHERE id < 5",
		`INSERT INTO public.outbox_dead SELECT txid, id, lane, topic, key, uuid, payload, metadata, created_at, attempts, 'e', now(), true, false FROM public.outbox`,
		"UPDATE public.outbox_dead SET tail = true", "DELETE FROM public.outbox_dead", "DELETE FROM public.outbox",
		"INSERT INTO public.outbox_inbox VALUES ('c', 'h', 'm')", "DELETE FROM public.outbox_inbox",
		"DELETE FROM public.outbox_migrations WHERE version = 3",
	} {
		execute(t, pool, statement)
	}
}

// A floor is proven by xids: a transaction must have its xid before it draws an id, or an id could come from a
// transaction that looks younger than it is.
func TestTransactionHasItsXidBeforeItDrawsAnId(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	migrate(t, pool, plain)
	// The default of id is what draws; here it says whether the xid came first.
	execute(t, pool, `CREATE FUNCTION public.draw() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
		BEGIN
			IF pg_current_xact_id_if_assigned() IS NULL THEN RAISE 'drawn without an xid'; END IF;
			RETURN nextval('public.outbox_id_seq');
		END $$`)
	expression := scan[string](t, pool, `SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef d JOIN pg_attribute a
		ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE d.adrelid = 'public.outbox'::regclass AND a.attname = 'id'`)
	watched := strings.Replace(expression, "nextval('public.outbox_id_seq'::regclass)", "public.draw()", 1)
	require.NotEqual(t, expression, watched)
	execute(t, pool, "ALTER TABLE public.outbox ALTER id SET DEFAULT "+watched)
	for _, insert := range []string{
		"INSERT INTO public.outbox (topic, uuid) VALUES ('t', 'u')",
		"INSERT INTO public.outbox (id, topic, uuid) VALUES (DEFAULT, 't', 'u'), (DEFAULT, 't', 'v')",
		"INSERT INTO public.outbox (id, txid, topic, uuid) VALUES (DEFAULT, DEFAULT, 't', 'u'), (DEFAULT, DEFAULT, 't', 'v')",
		"INSERT INTO public.outbox (topic, uuid) SELECT 't', n::text FROM generate_series(1, 3) n",
	} {
		execute(t, pool, insert)
	}
	// And it would tell.
	execute(t, pool, "ALTER TABLE public.outbox ALTER id SET DEFAULT public.draw()")
	_, err := pool.Exec(t.Context(), "INSERT INTO public.outbox (id, topic, uuid) VALUES (DEFAULT, 't', 'u'), (DEFAULT, 't', 'v')")
	require.ErrorContains(t, err, "drawn without an xid")
}
