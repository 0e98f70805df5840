package claim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// outbox is a migrated database and the claims that a test scripts on it, step by step.
type outbox struct {
	*testing.T
	pool *pgxpool.Pool
	sql  pgsql.Statements
}

func newOutbox(t *testing.T) *outbox {
	t.Helper()
	pool := testdb.New(t)
	names := pgsql.Names{Schema: "public", Table: "outbox"}
	for _, m := range pgsql.Migrations(names) {
		_, err := pool.Exec(t.Context(), m.Up)
		require.NoError(t, err)
	}
	return &outbox{T: t, pool: pool, sql: pgsql.Render(names)}
}

func (o *outbox) exec(sql string, args ...any) {
	o.Helper()
	_, err := o.pool.Exec(o.Context(), sql, args...)
	require.NoError(o, err)
}

func (o *outbox) count(where string) (n int) {
	o.Helper()
	require.NoError(o, o.pool.QueryRow(o.Context(), `SELECT count(*) FROM public.outbox WHERE `+where).Scan(&n))
	return n
}

type ctx = context.Context

type execer interface {
	QueryRow(ctx ctx, sql string, args ...any) pgx.Row
}

// write inserts a row and gives its id.
func (o *outbox) write(db execer, key string) (id int64) {
	o.Helper()
	require.NoError(o, db.QueryRow(o.Context(),
		`INSERT INTO public.outbox (topic, key, uuid, payload) VALUES ('orders', $1, gen_random_uuid()::text, 'x') RETURNING id`, key).Scan(&id))
	return id
}

func (o *outbox) begin() pgx.Tx {
	o.Helper()
	tx, err := o.pool.Begin(o.Context())
	require.NoError(o, err)
	o.Cleanup(func() { _ = tx.Rollback(o.T.Context()) })
	return tx
}

func (o *outbox) commit(tx pgx.Tx) {
	o.Helper()
	require.NoError(o, tx.Commit(o.Context()))
}

func (o *outbox) lane(key string) (lane int) {
	o.Helper()
	require.NoError(o, o.pool.QueryRow(o.Context(), `SELECT (hashtextextended($1 COLLATE "C", 0) & 63)::int`, key).Scan(&lane))
	return lane
}

// worker claims for a process, whose memory is the book.
type worker struct {
	*outbox
	session *claim.Session
	book    *claim.Book
	limits  claim.Limits
}

func (o *outbox) worker(book *claim.Book) *worker {
	o.Helper()
	conn, err := pgx.ConnectConfig(o.Context(), o.pool.Config().ConnConfig)
	require.NoError(o, err)
	o.Cleanup(func() { _ = conn.Close(o.T.Context()) })
	return &worker{outbox: o, session: &claim.Session{Conn: conn, SQL: &o.sql}, book: book,
		limits: claim.Limits{Rows: 500, Bytes: 1 << 20, Lanes: claim.Lanes, Idle: time.Minute}}
}

// taken is a claim between its two round trips.
type taken struct {
	*worker
	view    claim.View
	claimed *claim.Claimed
	plan    *claim.Plan
}

func (w *worker) claim() *taken {
	w.Helper()
	taken, err := w.tryClaim()
	require.NoError(w, err)
	return taken
}

func (w *worker) tryClaim() (*taken, error) {
	view := w.book.View(rand.Perm(claim.Lanes), false)
	claimed, err := w.session.Claim(w.Context(), view, w.limits)
	if err != nil {
		return nil, err
	}
	return &taken{w, view, claimed, claim.NewPlan(claimed.Rows, claimed.Allowed, true)}, nil
}

// settle gives every row that may go the outcome of decide (nil: acknowledged), and tells the ids of the acknowledged.
func (c *taken) settle(decide func(claim.Row) claim.Outcome) (acked []int64) {
	c.Helper()
	acked, err := c.trySettle(decide)
	require.NoError(c, err)
	return acked
}

func (c *taken) trySettle(decide func(claim.Row) claim.Outcome) (acked []int64, err error) {
	outcomes := make([]claim.Outcome, len(c.plan.Rows))
	for _, group := range c.plan.Groups() {
		for _, i := range group {
			outcomes[i] = claim.Outcome{Verdict: claim.Acked}
			if decide != nil {
				outcomes[i] = decide(c.plan.Rows[i])
			}
			if outcomes[i].Verdict != claim.Acked {
				break
			}
			acked = append(acked, c.plan.Rows[i].ID)
		}
	}
	_, err = c.session.Settle(c.Context(), c.claimed, c.plan.Settle(outcomes), c.book, c.view)
	slices.Sort(acked)
	return acked, err
}

// pass claims and settles, everything acknowledged.
func (w *worker) pass() []int64 {
	w.Helper()
	return w.claim().settle(nil)
}

// floor is what the book has proven of a key's lane.
func (w *worker) floor(key string) int64 {
	return w.book.View([]int{w.lane(key)}, false).Floors[0]
}

// riseAbove runs passes until the floor of the key's lane is above an id, and gives what they forwarded.
func (w *worker) riseAbove(key string, id int64) (acked []int64) {
	w.Helper()
	w.until(fmt.Sprintf("the floor is above %d", id), func() bool {
		acked = append(acked, w.pass()...)
		return w.floor(key) > id
	})
	return acked
}

func (o *outbox) until(what string, condition func() bool) {
	o.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			o.Fatalf("waited in vain until %s", what)
		}
	}
}

func fail(claim.Row) claim.Outcome { return claim.Outcome{Verdict: claim.Failed, Error: "no"} }
