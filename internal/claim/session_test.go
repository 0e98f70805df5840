package claim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
)

func TestALowerIdThatCommitsLaterIsNeitherLostNorStranded(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	slow := o.begin()
	first := o.write(slow, "k")
	second := o.write(o.pool, "k")
	require.Equal(t, []int64{second}, w.pass())
	require.Empty(t, w.pass())
	require.LessOrEqual(t, w.floor("k"), first, "a floor must not pass a row that may still commit")
	o.commit(slow)
	require.Equal(t, []int64{first}, w.pass())
	require.Zero(t, o.count("true"))
	w.riseAbove("k", second)
}

func TestAReleaseThatCameOutShortIsRepeated(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	ids := []int64{o.write(o.pool, "k"), o.write(o.pool, "k"), o.write(o.pool, "k")}
	require.Empty(t, w.claim().settle(fail))
	retry := w.claim()
	require.Len(t, retry.plan.Rows, 1)
	outsider := o.begin()
	_, err := outsider.Exec(t.Context(), `SELECT FROM public.outbox WHERE id = $1 FOR UPDATE`, ids[1])
	require.NoError(t, err)
	require.Equal(t, ids[:1], retry.settle(nil), "by-key statements never wait for an outsider")
	require.Empty(t, w.pass(), "the third was released, but the second comes first")
	o.commit(outsider)
	var got []int64
	o.until("the key is empty", func() bool { got = append(got, w.pass()...); return o.count("true") == 0 })
	require.Equal(t, ids[1:], got)
}

func TestAFailedCommitIsNotRemembered(t *testing.T) {
	o := newOutbox(t)
	o.exec(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused at commit'; END $$`)
	o.exec(`CREATE CONSTRAINT TRIGGER refuse AFTER DELETE ON public.outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
	w := o.worker(claim.NewBook())
	ids := []int64{o.write(o.pool, "k"), o.write(o.pool, "k")}
	for range 5 {
		_, err := w.claim().trySettle(nil)
		require.ErrorContains(t, err, "refused at commit")
	}
	require.Zero(t, w.floor("k"))
	o.exec(`DROP TRIGGER refuse ON public.outbox`)
	require.Equal(t, ids, w.pass())
}

func TestABackendEndedBeforeCommitGivesEverythingBack(t *testing.T) {
	o := newOutbox(t)
	book := claim.NewBook()
	w := o.worker(book)
	ids := []int64{o.write(o.pool, "k"), o.write(o.pool, "k")}
	taken := w.claim()
	o.exec(`SELECT pg_terminate_backend($1)`, int32(w.session.Conn.PgConn().PID()))
	_, err := taken.trySettle(nil)
	require.Error(t, err)
	require.True(t, w.session.Conn.IsClosed())
	other := o.worker(book)
	var got []int64
	o.until("the lanes are free", func() bool { got = append(got, other.pass()...); return len(got) > 0 })
	require.Equal(t, ids, got)
}

func TestTwoWorkersRememberInEitherOrder(t *testing.T) {
	for _, order := range []string{"older last", "older first"} {
		t.Run(order, func(t *testing.T) {
			o := newOutbox(t)
			book := claim.NewBook()
			a, b := o.worker(book), o.worker(book)
			slow := o.begin()
			first := o.write(slow, "k")
			second := o.write(o.pool, "k")
			old := a.claim() // sees the first still running
			require.Equal(t, []int64{second}, ids(old.plan.Rows))
			elsewhere := o.write(o.pool, "another key")
			o.commit(slow)
			young := b.claim() // sees it ended, but does not own its lane
			if order == "older first" {
				old.settle(nil)
				require.Equal(t, []int64{elsewhere}, young.settle(nil))
			} else {
				require.Equal(t, []int64{elsewhere}, young.settle(nil))
				old.settle(nil)
			}
			require.LessOrEqual(t, a.floor("k"), first)
			require.Equal(t, []int64{first}, a.pass())
			require.Zero(t, o.count("true"))
		})
	}
}

func TestACutScanProvesNothingAboveItsCut(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	w.limits.Rows = 2
	var all, got []int64
	for range 9 {
		all = append(all, o.write(o.pool, "k"))
	}
	for len(got) < len(all) {
		batch := w.pass()
		require.Len(t, batch, min(2, len(all)-len(got)))
		got = append(got, batch...)
		if len(got) < len(all) {
			require.LessOrEqual(t, w.floor("k"), all[len(got)])
		}
	}
	require.Equal(t, all, got)
}

func TestANewProcessStartsFromTheBeginning(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	w.riseAbove("k", o.write(o.pool, "k"))
	slow := o.begin()
	late := o.write(slow, "k")
	w.riseAbove("k", late) // with the writer on its list of long transactions
	o.commit(slow)
	require.Equal(t, []int64{late}, o.worker(claim.NewBook()).pass())
}

func TestEmptyLanesProveTheirFloorsToo(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	o.exec(`SELECT nextval('public.outbox_id_seq') FROM generate_series(1, 1000)`)
	w.until("every lane's floor has risen over ids that were drawn in vain", func() bool {
		require.Empty(t, w.pass())
		for lane := range claim.Lanes {
			if w.book.View([]int{lane}, false).Floors[0] <= 1000 {
				return false
			}
		}
		return true
	})
	idle := w.claim()
	require.Empty(t, idle.plan.Rows)
	idle.settle(nil)
	require.Zero(t, idle.claimed.Facts.Own, "an idle process draws no xids once nothing is left to prove")
}

func TestAnIdNotDrawnYetIsNotPassed(t *testing.T) {
	o := newOutbox(t) // the sequence's last_value is 1, but is_called is false: 1 is still to come
	w := o.worker(claim.NewBook())
	for range 5 {
		require.Empty(t, w.pass())
	}
	id := o.write(o.pool, "k")
	require.EqualValues(t, 1, id)
	require.Equal(t, []int64{id}, w.pass())
}

func ids(rows []claim.Row) (out []int64) {
	for i := range rows {
		out = append(out, rows[i].ID)
	}
	return out
}
