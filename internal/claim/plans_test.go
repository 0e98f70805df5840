package claim_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
)

// fill is an adverse state of the table. Rows are written by SQL, many at once.
const fill = `INSERT INTO public.outbox (topic, key, uuid, payload, lane, next_attempt_at, holds)
	SELECT 'orders', k, u, 'x', (hashtextextended(k COLLATE "C", 0) & 63)::smallint, %s
	FROM (SELECT 'key' || g %% 2000 AS k, g::text AS u FROM generate_series(1, %d) g) s`

const (
	asReady   = `NULL, false`
	asDelayed = `now() + interval '1 day', false`
	asParked  = `'infinity', true`
)

// adverse are the states in which planners were seen to go astray.
var adverse = map[string]func(o *outbox){
	"a backlog": func(o *outbox) { o.exec(fmt.Sprintf(fill, asReady, 200_000)); o.exec(`ANALYZE public.outbox`) },
	"delayed rows beside a backlog": func(o *outbox) {
		o.exec(fmt.Sprintf(fill, asDelayed, 200_000))
		o.exec(fmt.Sprintf(fill, asReady, 200_000))
		o.exec(`ANALYZE public.outbox`)
	},
	"statistics of nothing but parked rows": func(o *outbox) {
		o.exec(fmt.Sprintf(fill, asParked, 200_000))
		o.exec(`ANALYZE public.outbox`)
		o.exec(`DELETE FROM public.outbox`)
		o.exec(`VACUUM public.outbox`)
		o.exec(fmt.Sprintf(fill, asReady, 50_000))
	},
	"statistics of nothing but delayed rows": func(o *outbox) {
		o.exec(fmt.Sprintf(fill, asDelayed, 200_000))
		o.exec(`ANALYZE public.outbox`)
		o.exec(fmt.Sprintf(fill, asReady, 50_000))
	},
	"statistics of an empty table": func(o *outbox) {
		o.exec(`ANALYZE public.outbox`)
		o.exec(`ANALYZE public.outbox_dead`)
		o.exec(fmt.Sprintf(fill, asReady, 200_000))
	},
	"no statistics": func(o *outbox) { o.exec(fmt.Sprintf(fill, asReady, 200_000)) },
	"parked tails": func(o *outbox) {
		o.exec(fmt.Sprintf(fill, asParked, 200_000))
		o.exec(`UPDATE public.outbox SET next_attempt_at = now() WHERE id <= 2000`)
		o.exec(`ANALYZE public.outbox`)
	},
}

// maxBuffers is above what the right plans touch at 500 rows (4,000; with seven parked rows behind each 19,000), and far
// below any scan of a table or an index for each lane, key or row.
const maxBuffers = 25_000

func TestEveryStatementHasItsPlanInEveryAdverseState(t *testing.T) {
	for name, state := range adverse {
		t.Run(name, func(t *testing.T) {
			o := newOutbox(t)
			o.exec(`ALTER TABLE public.outbox SET (autovacuum_enabled = off)`)
			state(o)
			w := o.worker(claim.NewBook())
			w.claim() // the first to walk over deleted rows marks them; that happens once
			require.NoError(t, w.session.Rollback(t.Context()))
			began := time.Now()
			taken := w.claim() // by the generic plan
			took := time.Since(began)
			require.NotEmpty(t, taken.plan.Rows)
			var scans int
			require.NoError(t, w.session.Conn.QueryRow(t.Context(), `SELECT coalesce(sum(seq_scan), 0) FROM pg_stat_xact_user_tables WHERE schemaname = 'public'`).Scan(&scans))
			require.Zero(t, scans)
			buffers := o.explainAll(w, taken) // by plans for these very values, as a driver without prepared statements gets them
			require.Less(t, buffers, maxBuffers)
			t.Logf("a claim of %d rows took %v; its statements touch %d buffers", len(taken.plan.Rows), took.Round(time.Microsecond), buffers)
		})
	}
}

// explainAll explains every statement of a claim and its settlement, on the rows of an open claim, and gives the sum of
// the buffers that the two of the claim touch.
func (o *outbox) explainAll(w *worker, c *taken) (buffers int) {
	o.Helper()
	var tids []pgtype.TID
	var keys []string
	var ids []int64
	for i := range min(len(c.plan.Rows), 100) {
		r := &c.plan.Rows[i]
		tids, keys, ids = append(tids, r.TID), append(keys, r.Key), append(ids, r.ID)
	}
	n := len(tids)
	lanes, xids, lows := []int16{1, 2}, []string{"1", "2"}, []int64{0, 0}
	buffers += o.explain(w, true, o.sql.ChooseLanes, c.view.Lanes, c.view.Floors, 16, []int16{}, lanes, xids, lows, []int64{9, 9})
	args := []any{c.view.Lanes, c.view.Floors, 500, int64(1 << 20), int64(0), lanes, xids, lows, false}
	buffers += max(o.explain(w, true, o.sql.ClaimFree, args...), o.explain(w, true, o.sql.ClaimAround, args...))
	o.explain(w, false, o.sql.Delete, tids)
	o.explain(w, false, o.sql.Park, tids)
	o.explain(w, false, o.sql.Retry, tids, make([]float64, n), make([]string, n))
	o.explain(w, false, o.sql.Bury, tids, make([]string, n), make([]int32, n), make([]bool, n), make([]bool, n))
	o.explain(w, false, o.sql.Repark, keys, ids)
	o.explain(w, false, o.sql.Release, keys)
	o.explain(w, false, o.sql.StuckKeys)
	return buffers
}

func (o *outbox) explain(w *worker, analyze bool, sql string, args ...any) (buffers int) {
	o.Helper()
	var text []byte
	options := "FORMAT JSON"
	if analyze {
		options = "ANALYZE, BUFFERS, FORMAT JSON"
	}
	require.NoError(o, w.session.Conn.QueryRow(o.Context(), "EXPLAIN ("+options+") "+sql, args...).Scan(&text))
	var plans []struct{ Plan map[string]any }
	require.NoError(o, json.Unmarshal(text, &plans))
	walk(plans[0].Plan, func(node map[string]any) {
		relation, _ := node["Relation Name"].(string)
		kind, _ := node["Node Type"].(string)
		if (relation == "outbox" || relation == "outbox_dead") && (strings.Contains(kind, "Seq Scan") || strings.Contains(kind, "Bitmap")) {
			o.Errorf("%s on %s in\n%s\n%s", kind, relation, sql, text)
		}
		// Only the first probe of the loose scan for stuck keys, which has a LIMIT of 1, is without a condition.
		if index, _ := node["Index Name"].(string); strings.HasPrefix(index, "outbox_") && sql != o.sql.StuckKeys && node["Index Cond"] == nil {
			o.Errorf("%s is scanned whole in\n%s\n%s", index, sql, text)
		}
	})
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

func TestAClaimCostsTheSameWhileATransactionIsHeldOpen(t *testing.T) {
	for _, kind := range []string{"reading", "writing"} {
		t.Run(kind, func(t *testing.T) {
			o := newOutbox(t)
			o.exec(`ALTER TABLE public.outbox SET (autovacuum_enabled = off)`)
			held := o.begin()
			_, err := held.Exec(t.Context(), map[string]string{"reading": `DECLARE c CURSOR FOR SELECT 1`, "writing": `SELECT pg_current_xact_id()`}[kind])
			require.NoError(t, err)
			if kind == "reading" { // a snapshot that lasts
				require.NoError(t, held.Rollback(t.Context()))
				held = o.begin()
				_, err = held.Exec(t.Context(), `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`)
				require.NoError(t, err)
				_, err = held.Exec(t.Context(), `SELECT 1`)
				require.NoError(t, err)
			}
			o.exec(fmt.Sprintf(fill, asReady, 60_000))
			w := o.worker(claim.NewBook())
			w.limits.Lanes = 16
			var most int
			for n := 0; n < 60_000; {
				view := w.book.View(rand.Perm(claim.Lanes), false)
				claimed, err := w.session.Claim(t.Context(), view, w.limits)
				require.NoError(t, err)
				taken := &taken{w, view, claimed, claim.NewPlan(claimed.Rows, claimed.Allowed, true)}
				if n > 30_000 && n%7 == 0 {
					most = max(most, o.explainAll(w, taken))
				}
				acked := len(taken.settle(nil))
				n += acked
				if acked == 0 {
					break
				}
			}
			require.Zero(t, o.count("true"))
			require.Positive(t, most)
			require.Less(t, most, maxBuffers)
			t.Logf("behind 30,000 to 60,000 settled rows that can't be cleaned up, a claim touches at most %d buffers", most)
		})
	}
}
