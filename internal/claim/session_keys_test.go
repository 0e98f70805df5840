package claim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
)

// parked fails the first of n rows of a key, so that it holds and the rest is parked.
func parked(w *worker, key string, n int) (ids []int64) {
	w.Helper()
	for range n {
		ids = append(ids, w.write(w.pool, key))
	}
	w.claim().settle(func(claim.Row) claim.Outcome { return claim.Outcome{Verdict: claim.Failed, Error: "no", Delay: 3600} })
	require.Equal(w, n, w.count("holds AND key = '"+key+"'"))
	return ids
}

func (o *outbox) due() { o.exec(`UPDATE public.outbox SET next_attempt_at = now() WHERE attempts > 0`) }

func (w *worker) drain() (got []int64) {
	w.Helper()
	w.until("the outbox is empty", func() bool { got = append(got, w.pass()...); return w.count("true") == 0 })
	return got
}

func TestNewcomersOfAHeldKeyAreParkedAndOrderIsKept(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	all := parked(w, "k", 2)
	all = append(all, o.write(o.pool, "k"))
	require.Empty(t, w.pass())
	require.Equal(t, 3, o.count("holds"))
	o.due()
	require.Equal(t, all[:1], w.pass())
	all = append(all, o.write(o.pool, "k"))
	require.Equal(t, all[1:], w.drain())
}

func TestAReleaseMovesAtMost64RowsOfAKey(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	all := parked(w, "k", 200)
	o.due()
	require.Equal(t, all[:1], w.pass())
	require.Equal(t, 64, o.count("next_attempt_at < 'infinity'"))
	require.Equal(t, all[1:], w.drain())
}

func TestRowsBehindALockedOneAreNotMovedToAndFro(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	all := parked(w, "k", 100)
	o.due()
	outsider := o.begin()
	_, err := outsider.Exec(t.Context(), `SELECT 1 FROM public.outbox WHERE id = $1 FOR UPDATE`, all[1])
	require.NoError(t, err)
	require.Equal(t, all[:1], w.pass())
	for range 3 {
		require.Zero(t, o.count("next_attempt_at < 'infinity'"))
		require.Empty(t, w.pass())
	}
	o.commit(outsider)
	require.Equal(t, all[1:], w.drain())
}

func TestReleasedRowsAreParkedAgainBehindAnotherFailure(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	all := parked(w, "k", 10)
	o.due()
	require.Equal(t, all[:1], w.pass())
	w.limits.Rows = 4 // the claim does not see all that were released
	failing := func(r claim.Row) claim.Outcome {
		if r.ID == all[2] {
			return claim.Outcome{Verdict: claim.Failed, Error: "no", Delay: 3600}
		}
		return claim.Outcome{Verdict: claim.Acked}
	}
	require.Equal(t, all[1:2], w.claim().settle(failing))
	require.Equal(t, 7, o.count("next_attempt_at = 'infinity'"))
	o.due()
	require.Equal(t, all[2:], w.drain())
}

func TestAHeadDeletedByHandIsFoundByTheSweep(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	all := parked(w, "k", 3)
	free := parked(w, "another key", 2)
	o.exec(`DELETE FROM public.outbox WHERE id = $1`, all[0])
	require.Empty(t, w.pass())
	require.NoError(t, w.session.StuckKeys(t.Context(), w.book, w.limits.Idle))
	require.Empty(t, w.pass(), "the lane that owes the release is claimed, and releases")
	require.Equal(t, all[1:], w.pass())
	require.Equal(t, 2, o.count("holds"), "the other key's failed row still waits")
	o.due()
	require.Equal(t, free, w.drain())
}

func TestAClockSetBackDelaysReleasedRowsButKeepsTheirOrder(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	all := parked(w, "k", 130)
	o.due()
	require.Equal(t, all[:1], w.pass())
	// The clock goes back: what was released before is due in the future.
	o.exec(`UPDATE public.outbox SET next_attempt_at = clock_timestamp() + interval '300 ms' WHERE next_attempt_at < 'infinity'`)
	require.Empty(t, w.pass())
	require.Equal(t, all[1:], w.drain())
}

func TestAQuarantinedKeyFollowsItsHeadIntoTheDeadLetters(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	all := parked(w, "k", 150)
	other := o.write(o.pool, "another key")
	o.due()
	dead := func(r claim.Row) claim.Outcome {
		if r.Key == "k" {
			return claim.Outcome{Verdict: claim.Dead, Error: "poison", Charged: 1}
		}
		return claim.Outcome{Verdict: claim.Acked}
	}
	require.Equal(t, []int64{other}, w.claim().settle(dead))
	all = append(all, o.write(o.pool, "k"))
	w.until("the tail has followed", func() bool { require.Empty(t, w.pass()); return o.count("true") == 0 })
	rows, err := o.pool.Query(t.Context(), `SELECT id, tail, last_error, attempts FROM public.outbox_dead ORDER BY id`)
	require.NoError(t, err)
	defer rows.Close()
	for i := 0; rows.Next(); i++ {
		var id int64
		var tail bool
		var cause string
		var attempts int
		require.NoError(t, rows.Scan(&id, &tail, &cause, &attempts))
		require.Equal(t, all[i], id)
		require.Equal(t, i > 0, tail)
		if i == 0 {
			require.Equal(t, "poison", cause)
			require.Equal(t, 2, attempts)
		}
	}
	require.NoError(t, rows.Err())
	require.Len(t, all, 151)
}

func TestADeadLetterThatDoesNotHoldLetsItsKeyGoOn(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	all := parked(w, "k", 80)
	o.due()
	taken := w.claim()
	require.Empty(t, taken.settle(func(claim.Row) claim.Outcome { return claim.Outcome{Verdict: claim.Dead, Error: "odd", Alone: true} }))
	require.Equal(t, all[1:], w.drain())
}

func TestAFailedUnkeyedRowStopsNothing(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	var all []int64
	for range 10 {
		all = append(all, o.write(o.pool, ""))
	}
	failing := func(r claim.Row) claim.Outcome {
		if r.ID == all[0] {
			return claim.Outcome{Verdict: claim.Failed, Error: "no", Delay: 3600}
		}
		return claim.Outcome{Verdict: claim.Acked}
	}
	require.Equal(t, all[1:], w.claim().settle(failing))
	require.Zero(t, o.count("holds"))
	o.due()
	require.Equal(t, all[:1], w.pass())
}

func TestARowThatIsGoneWhenItIsSettledIsReported(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	o.write(o.pool, "k")
	taken := w.claim()
	s := taken.plan.Settle([]claim.Outcome{{Verdict: claim.Acked}})
	s.Done[0].OffsetNumber += 100
	report, err := w.session.Settle(t.Context(), taken.claimed, s, w.book, taken.view)
	require.NoError(t, err)
	require.Equal(t, 1, report.Gone)
}

func TestMetadataCountsUncompressed(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	w.limits.Bytes = 50_000
	o.exec(`INSERT INTO public.outbox (topic, uuid, metadata) SELECT 'orders', g::text, jsonb_build_object('a', repeat('a', 20000)) FROM generate_series(1, 5) g`)
	require.Len(t, w.pass(), 2)
	o.exec(`INSERT INTO public.outbox (topic, uuid) VALUES ('orders', repeat('u', 60000))`)
	require.Len(t, w.pass(), 2)
	taken := w.claim()
	require.Len(t, taken.plan.Rows, 2)
	require.True(t, taken.plan.Rows[1].Over)
}

func TestAByteBudgetLeavesTheRestAndTakesALargeRowOnlyWhenAllowed(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	insert := func(key string, size int) (id int64) {
		require.NoError(t, o.pool.QueryRow(t.Context(), `INSERT INTO public.outbox (topic, key, uuid, payload)
			VALUES ('orders', $1, gen_random_uuid()::text, $2) RETURNING id`, key, make([]byte, size)).Scan(&id))
		return id
	}
	w.limits.Bytes = 1000
	small := []int64{insert("k", 400), insert("k", 400), insert("k", 400), insert("k", 400)}
	require.Equal(t, small[:2], w.pass())
	require.Equal(t, small[2:], w.pass())
	large, behind, other := insert("k", 5000), insert("k", 10), insert("another key", 10)
	require.Equal(t, []int64{other}, w.pass())
	taken := w.claim()
	require.Nil(t, taken.plan.Rows[0].Payload, "what does not fit is not fetched")
	require.Greater(t, taken.plan.Rows[0].Size, int64(5000))
	taken.settle(nil)
	w.limits.Oversized = large
	require.Equal(t, []int64{large, behind}, w.pass())
}
