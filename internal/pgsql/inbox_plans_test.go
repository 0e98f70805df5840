package pgsql_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// received records many messages that came so long ago.
func received(name, age string) string {
	return fmt.Sprintf(`INSERT INTO public.outbox_inbox SELECT 'shop', 'handler', '%s' || g, now() - interval '%s' FROM generate_series(1, 100000) g`, name, age)
}

// What it costs to know a message again, and to forget old ones, does not depend on how many are known.
func TestTheInboxsStatementsHaveTheirPlansInEveryAdverseState(t *testing.T) {
	t.Parallel()
	sql := pgsql.Render(plain)
	const analyze = `ANALYZE public.outbox_inbox`
	for name, state := range map[string][]string{
		"all young":                              {received("young", "1 day"), received("younger", "1 hour"), analyze},
		"all young, without statistics":          {received("young", "1 day")},
		"statistics of an empty table":           {analyze, received("young", "1 day"), received("old", "40 days")},
		"statistics of old ones only":            {received("old", "40 days"), analyze, `TRUNCATE public.outbox_inbox`, received("young", "1 day")},
		"statistics of young ones only":          {received("young", "1 day"), analyze, received("old", "40 days")},
		"old ones behind young ones":             {received("young", "1 day"), received("old", "40 days"), analyze},
		"old ones that were deleted, unvacuumed": {received("old", "40 days"), received("young", "1 day"), analyze, `DELETE FROM public.outbox_inbox WHERE message_id LIKE 'old%'`},
	} {
		t.Run(name, func(t *testing.T) {
			pool := testdb.New(t)
			migrate(t, pool, plain)
			execute(t, pool, `ALTER TABLE public.outbox_inbox SET (autovacuum_enabled = off)`)
			for _, step := range state {
				execute(t, pool, step)
			}
			execute(t, pool, sql.Prune, 2592000.0, 10, "shop") // what was deleted and is not vacuumed yet is met once
			for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
				requireInboxPlans(t, pool, sql, mode)
			}
		})
	}
}

func requireInboxPlans(t *testing.T, pool *pgxpool.Pool, sql pgsql.Statements, mode string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	run := func(statement string) {
		_, err := tx.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	run(`SET LOCAL plan_cache_mode = ` + mode)
	run(`PREPARE prune AS ` + sql.Prune)
	run(`PREPARE receive AS ` + sql.Receive)
	// Far below a scan of the table. Most of it is pages of the index that are full of what was deleted and not yet vacuumed.
	require.Less(t, explain(t, tx, `EXECUTE prune(2592000, 10, 'shop')`), 1000, mode)
	require.Less(t, explain(t, tx, `EXECUTE receive('shop', 'handler', 'new')`), 100, mode)
	require.Less(t, explain(t, tx, `EXECUTE receive('shop', 'handler', 'young1')`), 100, mode)
	run(`DEALLOCATE prune`)
	run(`DEALLOCATE receive`)
}
