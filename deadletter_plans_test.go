package outbox_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// One letter, or one page, among many: with statistics, without, and with those of empty tables.
func TestAFewOfManyDeadLettersTakeAFewPages(t *testing.T) {
	t.Parallel()
	const mostBuffers = 150 // about 60 for the rows, their indexes and the catalog; a scan of either table is a thousand
	statements := pgsql.Render(pgsql.Names{Schema: "public", Table: "outbox"})
	fill := []string{
		`INSERT INTO public.outbox (topic, uuid, payload) SELECT 't', n::text, convert_to(repeat('x', 200), 'UTF8') FROM generate_series(1, 60000) n`,
		`INSERT INTO public.outbox (topic, key, uuid, payload) SELECT 't', 'k' || n % 6000, n::text, convert_to(repeat('x', 200), 'UTF8') FROM generate_series(1, 60000) n`,
		`INSERT INTO public.outbox_dead SELECT txid, id, lane, topic, key, uuid, payload, metadata, created_at, 1, 'e', now(), key <> '', id > 66000
			FROM public.outbox`,
		`DELETE FROM public.outbox_dead WHERE id % 2 = 0`,
		`DELETE FROM public.outbox WHERE id % 2 = 1`,
	}
	for name, prepare := range map[string]func(vacuum string) []string{
		"statistics":    func(vacuum string) []string { return append(fill, vacuum) },
		"no statistics": func(string) []string { return fill },
		"statistics of empty tables": func(vacuum string) []string {
			return append([]string{vacuum}, fill...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := migrated(t)
			execute(t, pool, `ALTER TABLE public.outbox SET (autovacuum_enabled = off)`, `ALTER TABLE public.outbox_dead SET (autovacuum_enabled = off)`)
			execute(t, pool, prepare(`ANALYZE public.outbox, public.outbox_dead`)...)
			one := []any{[]int64{4001}, "", "", "", "", 0.0, int64(0), int64(math.MaxInt64)}
			page := []any{nil, "", "", "", "", 0.0, int64(20_000), int64(100)}
			every := make([]int16, 64)
			for i := range every {
				every[i] = int16(i)
			}
			for what, s := range map[string]struct {
				sql  string
				args []any
			}{
				"list one": {statements.DeadList, one}, "a page": {statements.DeadList, page}, "lock one": {statements.DeadLock, one},
				"requeue one": {statements.DeadRequeue, append(one, every, 1.0)}, "discard one": {statements.DeadDiscard, append(one, every, 1.0)},
				"discard the head of a key": {statements.DeadDiscard, append([]any{[]int64{64001}}, append(one[1:], every, 1.0)...)},
				"release a key":             {statements.Release, []any{[]string{"k1"}}},
			} {
				buffers, relations := explain(t, pool, statements.DeadSettings, s.sql, s.args)
				require.Less(t, buffers, mostBuffers, what)
				if what != "release a key" {
					require.NotContains(t, relations, "outbox", what)
				}
			}
		})
	}
}

// explain executes a statement in a transaction that is rolled back, and gives the buffers it has touched and what it has
// read.
func explain(t *testing.T, pool *pgxpool.Pool, settings, sql string, args []any) (buffers int, read []string) {
	t.Helper()
	undo := errors.New("undo")
	var text []byte
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), settings); err != nil {
			return err
		}
		err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&text)
		return errors.Join(err, undo)
	})
	require.ErrorIs(t, err, undo)
	require.NotEmpty(t, text, err)
	var plans []struct{ Plan node }
	require.NoError(t, json.Unmarshal(text, &plans))
	plans[0].Plan.walk(func(n node) {
		if n.Type != "ModifyTable" && n.Relation != "" {
			read = append(read, n.Relation)
		}
	})
	return plans[0].Plan.Hit + plans[0].Plan.Read, read
}

// node is what a test wants to know of a plan's node.
type node struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Hit      int    `json:"Shared Hit Blocks"`
	Read     int    `json:"Shared Read Blocks"`
	Plans    []node
}

func (n node) walk(visit func(node)) {
	visit(n)
	for _, child := range n.Plans {
		child.walk(visit)
	}
}
