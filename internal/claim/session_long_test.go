package claim_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
)

// overtaken leaves a transaction open with n rows of a key, and raises the floor of its lane above them.
func overtaken(w *worker, key string, n int) (tx pgx.Tx, ids []int64) {
	w.Helper()
	tx = w.begin()
	for range n {
		ids = append(ids, w.write(tx, key))
	}
	w.riseAbove(key, ids[n-1])
	return tx, ids
}

func TestALongTransactionDoesNotHoldTheFloorDownAndItsRowsAreFound(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	tx, late := overtaken(w, "k", 3)
	newer := o.write(o.pool, "k")
	require.Equal(t, []int64{newer}, w.pass())
	o.commit(tx)
	require.Equal(t, late, w.pass())
	require.Zero(t, o.count("true"))
	w.until("the list is empty", func() bool { w.pass(); return len(w.book.View([]int{o.lane("k")}, false).Late) == 0 })
}

func TestALongTransactionThatRollsBackLeavesTheList(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	tx, _ := overtaken(w, "k", 3)
	require.NotEmpty(t, w.book.View([]int{o.lane("k")}, false).Late)
	require.NoError(t, tx.Rollback(t.Context()))
	w.until("the list is empty", func() bool { w.pass(); return len(w.book.View([]int{o.lane("k")}, false).Late) == 0 })
}

func TestLateRowsThatAreCutGoFirstAndAlone(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	tx, late := overtaken(w, "k", 7)
	w.limits.Rows = 3
	o.commit(tx)
	newer := o.write(o.pool, "k") // ordered after the late ones by its writer
	require.Equal(t, late[:3], w.pass())
	require.Equal(t, late[3:6], w.pass())
	require.Equal(t, []int64{late[6], newer}, w.pass())
}

func TestTwoLongTransactionsAreMergedById(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	a, b := o.begin(), o.begin()
	var all []int64
	for range 4 {
		all = append(all, o.write(a, "k"), o.write(b, "k"))
	}
	w.riseAbove("k", all[7])
	w.limits.Rows = 3
	o.commit(a)
	o.commit(b)
	var got []int64
	for o.count("true") > 0 {
		got = append(got, w.pass()...)
	}
	require.Equal(t, all, got)
}

func TestALateRowLeftReadyIsNotForgotten(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	tx, late := overtaken(w, "k", 2)
	o.commit(tx)
	outsider := o.begin()
	_, err := outsider.Exec(t.Context(), `SELECT FROM public.outbox WHERE id = $1 FOR UPDATE`, late[0])
	require.NoError(t, err)
	for range 3 {
		require.Empty(t, w.pass())
		o.write(o.pool, "another key")
		w.pass()
	}
	o.commit(outsider)
	require.Equal(t, late, w.pass())
}

func TestMoreLongTransactionsThanTheListTakesHoldTheFloor(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	open := make([]pgx.Tx, 18)
	var first int64
	for i := range open {
		conn, err := pgx.ConnectConfig(t.Context(), o.pool.Config().ConnConfig)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		open[i], err = conn.Begin(t.Context())
		require.NoError(t, err)
		if id := o.write(open[i], "k"); i == 0 {
			first = id
		}
	}
	elsewhere := o.worker(claim.NewBook()) // a second process, whose list is long enough once two have ended
	newer := o.write(o.pool, "k")
	require.Equal(t, []int64{newer}, w.pass())
	for range 50 {
		w.pass()
	}
	require.LessOrEqual(t, w.floor("k"), first)
	for _, tx := range open[:2] {
		o.commit(tx)
	}
	elsewhere.riseAbove("k", newer)
	for _, tx := range open[2:] {
		o.commit(tx)
	}
	require.Len(t, w.pass(), 16)
	require.Zero(t, o.count("true"))
}

func TestASequenceThatStartsAgainVoidsTheFloors(t *testing.T) {
	for name, reset := range map[string]string{
		"truncate": `TRUNCATE public.outbox RESTART IDENTITY`,
		"restart":  `ALTER SEQUENCE public.outbox_id_seq RESTART`,
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutbox(t)
			w := o.worker(claim.NewBook())
			for range 5 {
				o.write(o.pool, "k")
			}
			w.riseAbove("k", 5)
			o.exec(reset)
			id := o.write(o.pool, "k")
			require.EqualValues(t, 1, id)
			_, err := w.tryClaim()
			require.ErrorIs(t, err, claim.ErrIncarnation)
			w.book.Forget()
			require.Equal(t, []int64{id}, w.pass())
		})
	}
}

func TestAClaimInFlightAcrossAResetIsNotRemembered(t *testing.T) {
	o := newOutbox(t)
	w := o.worker(claim.NewBook())
	for range 5 {
		o.write(o.pool, "k")
	}
	inFlight := w.claim()
	o.exec(`ALTER SEQUENCE public.outbox_id_seq RESTART`)
	w.book.Forget() // as another worker of the process does that has met the reset
	inFlight.settle(nil)
	require.Zero(t, w.floor("k"))
	id := o.write(o.pool, "k")
	require.Equal(t, []int64{id}, w.pass())
}

func TestInheritedSettingsDoNotReachTheClaim(t *testing.T) {
	o := newOutbox(t)
	var database string
	require.NoError(t, o.pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&database))
	for _, setting := range []string{`default_transaction_isolation = 'serializable'`, `default_transaction_read_only = on`,
		`synchronous_commit = off`, `idle_in_transaction_session_timeout = '1ms'`, `jit_above_cost = 0`} {
		o.exec(`ALTER DATABASE ` + database + ` SET ` + setting)
	}
	w := o.worker(claim.NewBook())
	writer, err := pgx.ConnectConfig(t.Context(), o.pool.Config().ConnConfig)
	require.NoError(t, err)
	defer func() { _ = writer.Close(t.Context()) }()
	_, err = writer.Exec(t.Context(), `SET default_transaction_read_only = off`)
	require.NoError(t, err)
	id := o.write(writer, "k")
	taken := w.claim()
	show := func(name string) (value string) {
		require.NoError(t, w.session.Conn.QueryRow(t.Context(), `SELECT current_setting($1)`, name).Scan(&value))
		return value
	}
	require.Equal(t, "read committed", show("transaction_isolation"))
	require.Equal(t, "local", show("synchronous_commit"))
	require.Equal(t, "1min", show("idle_in_transaction_session_timeout"))
	require.Equal(t, "off", show("jit"))
	require.Equal(t, []int64{id}, taken.settle(nil))
	require.Equal(t, "on", show("jit"), "settings end with the claim")
}
