package pgsql_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// fill writes rows of a topic, in a state, many at once. The topics t0, t1, … share them if it ends with %.
const fill = `INSERT INTO public.outbox (topic, key, uuid, payload, lane, next_attempt_at, holds)
	SELECT replace('%[1]s', '%%', (g %% 50)::text), 'key' || g %% 2000, g::text, 'x', g %% 64, %[2]s FROM generate_series(1, %[3]d) g`

const (
	asReady   = `NULL, false`
	asDelayed = `now() + interval '1 day', false`
	asDue     = `now() - interval '1 minute', false`
	asParked  = `'infinity', true`
)

// foreign are states of the table in which a subscriber asks for the topic "mine".
var foreign = map[string][]string{
	"other topics":                         {some("t%", asReady), some("t%", asReady), some("t%", asDelayed), "few", "analyze"},
	"other topics, without statistics":     {some("t%", asReady), some("t%", asDelayed), "few"},
	"statistics of an empty table":         {"analyze", some("t%", asReady), some("t%", asDelayed), "few"},
	"statistics of nothing but the topic":  {some("mine", asReady), "analyze", "empty", some("t%", asReady), "few"},
	"delayed rows of the topic":            {some("mine", asDelayed), "few", "analyze"},
	"parked rows of the topic":             {some("mine", asParked), "few", "analyze"},
	"due rows of other topics":             {some("t%", asDue), "few", "analyze"},
	"a backlog of the topic":               {some("mine", asReady), some("mine", asDue), "analyze"},
	"a backlog, statistics of parked rows": {some("mine", asParked), "analyze", "empty", some("mine", asReady)},
	"nothing of the topic":                 {some("t%", asReady), some("t%", asDelayed), "analyze"},
}

func some(topic, state string) string { return fmt.Sprintf(fill, topic, state, 100_000) }

var steps = map[string]string{
	"analyze": `ANALYZE public.outbox`,
	"empty":   `TRUNCATE public.outbox`,
	"few":     fmt.Sprintf(fill, "mine", asReady, 300) + ";" + fmt.Sprintf(fill, "mine", asDelayed, 300) + ";" + fmt.Sprintf(fill, "mine", asDue, 20),
}

// maxTakeBuffers is above what the right plans touch for 100 rows, and far below any scan of the table or an index.
const maxTakeBuffers = 1000

func TestASubscribersStatementsHaveTheirPlansInEveryAdverseState(t *testing.T) {
	t.Parallel()
	sql := pgsql.Render(pgsql.Names{Schema: "public", Table: "outbox"})
	for name, state := range foreign {
		t.Run(name, func(t *testing.T) {
			pool := testdb.New(t)
			migrate(t, pool, pgsql.Names{Schema: "public", Table: "outbox"})
			execute(t, pool, `ALTER TABLE public.outbox SET (autovacuum_enabled = off)`)
			for _, step := range state {
				if steps[step] != "" {
					step = steps[step]
				}
				execute(t, pool, step)
			}
			for _, plans := range []string{"force_custom_plan", "force_generic_plan"} {
				requirePlans(t, pool, sql, plans)
			}
		})
	}
}

// requirePlans takes and settles once, explaining everything, and undoes it.
func requirePlans(t *testing.T, pool *pgxpool.Pool, sql pgsql.Statements, mode string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SELECT set_config('plan_cache_mode', $1, true)`, mode)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `PREPARE take AS `+sql.Take)
	require.NoError(t, err)
	require.Less(t, explain(t, tx, `EXECUTE take('mine', 100)`), maxTakeBuffers, mode)
	_, err = tx.Exec(t.Context(), `DEALLOCATE take`)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), sql.PlainPlans)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT set_config('outbox.acked', '100', true),
		set_config('outbox.taken', ARRAY(SELECT ctid FROM public.outbox LIMIT 100)::text, true)`)
	require.NoError(t, err)
	require.Less(t, explain(t, tx, sql.DeleteAcked), 2*maxTakeBuffers, mode)
	_, err = tx.Exec(t.Context(), `PREPARE settle AS `+sql.DeleteTaken)
	require.NoError(t, err)
	explain(t, tx, `EXECUTE settle(100)`)
	_, err = tx.Exec(t.Context(), `DEALLOCATE settle`)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT set_config('outbox.release_keys', '{key1,key2,key3,key4}', true)`)
	require.NoError(t, err)
	require.Less(t, explain(t, tx, sql.ReleaseAcked), 5*maxTakeBuffers, mode) // of 256 rows
}

func explain(t *testing.T, tx pgx.Tx, sql string) (buffers int) {
	t.Helper()
	var text []byte
	require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql).Scan(&text))
	var plans []struct{ Plan map[string]any }
	require.NoError(t, json.Unmarshal(text, &plans))
	walk(plans[0].Plan, func(node map[string]any) {
		kind, _ := node["Node Type"].(string)
		index, _ := node["Index Name"].(string)
		relation, _ := node["Relation Name"].(string)
		if strings.HasPrefix(relation, "outbox") && (strings.Contains(kind, "Seq Scan") || strings.Contains(kind, "Bitmap")) {
			t.Errorf("%s in\n%s\n%s", kind, sql, text)
		}
		if index != "" && (node["Index Cond"] == nil || index == "outbox_ready" || index == "outbox_waiting" || index == "outbox_pkey") {
			t.Errorf("%s on %s in\n%s\n%s", kind, index, sql, text)
		}
	})
	require.Less(t, plans[0].Plan["Total Cost"], 100_000.0, "below what has the server compile it")
	hit, _ := plans[0].Plan["Shared Hit Blocks"].(float64)
	read, _ := plans[0].Plan["Shared Read Blocks"].(float64)
	return int(hit + read)
}

func walk(node map[string]any, visit func(map[string]any)) {
	visit(node)
	children, _ := node["Plans"].([]any)
	for _, child := range children {
		walk(child.(map[string]any), visit)
	}
}
