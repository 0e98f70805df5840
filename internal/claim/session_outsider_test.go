package claim_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// An outsider is whoever locks or changes rows without owning their lane: an operator, or another library.

func TestARowLockedByAnOutsiderIsNeitherLostNorOvertaken(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	one, two, other := o.write(o.pool, "k"), o.write(o.pool, "k"), o.write(o.pool, "another key")
	outsider := o.begin()
	_, err := outsider.Exec(t.Context(), `SELECT FROM public.outbox WHERE id = $1 FOR UPDATE`, one)
	require.NoError(t, err)
	require.Equal(t, []int64{other}, w.pass())
	for range 5 {
		o.write(o.pool, "another key")
		w.pass()
	}
	require.LessOrEqual(t, w.floor("k"), one)
	require.Equal(t, 2, o.count("NOT holds AND next_attempt_at IS NULL"), "both stay exactly as they are")
	o.commit(outsider)
	require.Equal(t, []int64{one, two}, w.pass())
}

func TestARowThatAnOutsiderMovesIsNotSettledInItsOldPlace(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	one, two := o.write(o.pool, "k"), o.write(o.pool, "k")
	outsider := o.begin()
	_, err := outsider.Exec(t.Context(), `UPDATE public.outbox SET topic = 'elsewhere' WHERE id = $1`, one)
	require.NoError(t, err)
	require.Empty(t, w.pass())
	o.commit(outsider)
	taken := w.claim()
	require.Equal(t, "elsewhere", taken.plan.Rows[0].Topic)
	require.Equal(t, []int64{one, two}, taken.settle(nil))
	require.Zero(t, o.count("true"))
}

func TestALockedHoldingRowKeepsTheReleasedOnesBehindIt(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	ids := []int64{o.write(o.pool, "k"), o.write(o.pool, "k"), o.write(o.pool, "k")}
	require.Empty(t, w.claim().settle(fail))
	require.Equal(t, 3, o.count("holds"))
	o.exec(`UPDATE public.outbox SET next_attempt_at = now()`) // all due, as after a release
	outsider := o.begin()
	_, err := outsider.Exec(t.Context(), `SELECT FROM public.outbox WHERE id = $1 FOR UPDATE`, ids[0])
	require.NoError(t, err)
	require.Empty(t, w.pass())
	o.commit(outsider)
	var got []int64
	o.until("the key is empty", func() bool { got = append(got, w.pass()...); return o.count("true") == 0 })
	require.Equal(t, ids, got)
}

// The scan has seen the row, the outsider changes it and commits, then the claim comes to lock it.
func TestARowThatAnOutsiderMovesDuringTheClaim(t *testing.T) {
	for form, around := range map[string]bool{"locking as it scans": false, "around locked rows": true} {
		t.Run(form, func(t *testing.T) {
			o := newOutbox(t)
			w := o.worker(claim.NewBook())
			first, one, two := o.write(o.pool, "another key"), o.write(o.pool, "k"), o.write(o.pool, "k")
			if around {
				outsider := o.begin()
				_, err := outsider.Exec(t.Context(), `SELECT FROM public.outbox WHERE id = $1 FOR UPDATE`, first)
				require.NoError(t, err)
				w.claim()
				require.NoError(t, w.session.Rollback(t.Context()))
				o.commit(outsider)
			}
			stopped := o.begin()
			_, err := stopped.Exec(t.Context(), `SELECT pg_advisory_xact_lock(1, 1)`)
			require.NoError(t, err)
			o.stopScanAt(w, one)
			claims := make(chan *taken, 1)
			go func() { claims <- w.claim() }()
			o.until("the scan stops at the row", func() bool {
				var n int
				require.NoError(t, o.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`).Scan(&n))
				return n == 1
			})
			o.exec(`UPDATE public.outbox SET topic = 'elsewhere' WHERE id = $1`, one)
			o.commit(stopped)
			if around { // it was locked, if at all, in a place where the scan did not see it
				require.Equal(t, []int64{first}, (<-claims).settle(nil))
				require.Equal(t, 2, o.count("NOT holds AND next_attempt_at IS NULL"))
				require.Equal(t, []int64{one, two}, w.pass())
			} else {
				taken := <-claims
				require.Equal(t, []int64{first, one, two}, taken.settle(nil))
				require.Equal(t, "elsewhere", taken.plan.Rows[1].Topic)
			}
			require.Zero(t, o.count("true"))
		})
	}
}

// stopScanAt makes the worker's scans wait for the advisory lock (1, 1) when they see a row: by a policy of row level
// security, which has no power over the table's owner.
func (o *outbox) stopScanAt(w *worker, id int64) {
	o.Helper()
	role, _ := testdb.Role(o, o.pool.Config().ConnString())
	name := pgx.Identifier{role}.Sanitize()
	o.exec(`CREATE FUNCTION public.stop(id bigint, at bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
		IF id = at AND coalesce(current_setting('outbox.lanes', true), '') <> '' THEN -- not while lanes are chosen
			 PERFORM pg_advisory_lock_shared(1, 1), pg_advisory_unlock_shared(1, 1); END IF;
		RETURN true;
	END $$`)
	o.exec(fmt.Sprintf(`CREATE POLICY stop ON public.outbox USING (public.stop(id, %d))`, id))
	o.exec(`ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY`)
	o.exec(`GRANT ALL ON ALL TABLES IN SCHEMA public TO ` + name)
	o.exec(`GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ` + name)
	o.exec(`GRANT USAGE ON SCHEMA public TO ` + name)
	_, err := w.session.Conn.Exec(o.Context(), `SET ROLE `+name)
	require.NoError(o, err)
}
