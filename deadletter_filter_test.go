package outbox_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// closedPool lets every SQL fail.
func closedPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	pool.Close()
	return pool
}

func TestAllProblemsOfADeadLetterFilterAreReportedBeforeAnySQL(t *testing.T) {
	t.Parallel()
	d := deadLetters(t, closedPool(t))
	filter := outbox.DeadLetterFilter{UUID: "a\x00", Topic: "\xff", Key: "k\x00", ErrorContains: "\xc3\x28",
		OlderThan: -time.Second, AfterID: -1, Limit: -2}
	_, list := d.List(t.Context(), filter)
	_, requeue := d.Requeue(t.Context(), filter)
	_, discard := d.Discard(t.Context(), filter)
	for _, err := range []error{list, requeue, discard} {
		require.EqualError(t, err, `outbox: DeadLetterFilter.UUID: has a NUL byte at position 1, which PostgreSQL can't store; encode it, as base64 for example
outbox: DeadLetterFilter.Topic: is not valid UTF-8 at position 0; encode it, as base64 for example
outbox: DeadLetterFilter.Key: has a NUL byte at position 1, which PostgreSQL can't store; encode it, as base64 for example
outbox: DeadLetterFilter.ErrorContains: is not valid UTF-8 at position 0; encode it, as base64 for example
outbox: DeadLetterFilter.OlderThan: must not be negative, is -1s
outbox: DeadLetterFilter.AfterID: must not be negative, is -1
outbox: DeadLetterFilter.Limit: must be positive, 0 for the default or -1 for no limit, is -2`)
	}
}

func TestRequeueAndDiscardRefuseAFilterThatSelectsByNothing(t *testing.T) {
	t.Parallel()
	d := deadLetters(t, closedPool(t))
	for _, filter := range []outbox.DeadLetterFilter{{}, {AfterID: 1}, {Limit: -1}, {AfterID: 9, Limit: 9}} {
		require.NoError(t, filter.Validate(), "for List it is right")
		for name, err := range map[string]error{"Requeue": second(d.Requeue(t.Context(), filter)), "Discard": second(d.Discard(t.Context(), filter))} {
			require.ErrorIs(t, err, outbox.ErrSelectsNothing, name)
			require.EqualError(t, err, "outbox: DeadLetterFilter: it selects by nothing, AfterID and Limit don't; set All to mean every dead letter")
		}
	}
	for _, filter := range []outbox.DeadLetterFilter{
		{All: true}, {IDs: []int64{}}, {UUID: "u"}, {Topic: "t"}, {Key: "k"}, {ErrorContains: "e"}, {OlderThan: 1},
	} {
		_, err := d.Requeue(t.Context(), filter)
		require.ErrorContains(t, err, `outbox: requeueing dead letters of "public"."outbox": closed pool`)
		_, err = d.Discard(t.Context(), filter)
		require.ErrorContains(t, err, `outbox: discarding dead letters of "public"."outbox": closed pool`)
	}
}

func second(_ int64, err error) error { return err }

func TestNewDeadLettersNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := outbox.NewDeadLetters(nil, outbox.Schema{Name: "pg_mine"})
	require.ErrorContains(t, err, "outbox: pool: it is nil")
	require.ErrorContains(t, err, "outbox: Schema.Name: ")
	_, err = outbox.NewDeadLetters(closedPool(t), outbox.Schema{Table: "a\x00"})
	require.ErrorContains(t, err, "outbox: Schema.Table: ")
	d := deadLetters(t, closedPool(t)).WithLogger(nil)
	for _, err := range []error{
		second(d.Requeue(nil, everyLetter)), second(d.Discard(nil, everyLetter)), //nolint:staticcheck // that is the test
	} {
		require.ErrorContains(t, err, "outbox: ctx: it is nil")
	}
	_, err = d.List(nil, everyLetter) //nolint:staticcheck // that is the test
	require.ErrorContains(t, err, "outbox: ctx: it is nil")
	_, err = new(outbox.DeadLetters).List(t.Context(), everyLetter)
	require.ErrorContains(t, err, "outbox: pool: it is nil")
}

func TestDeadLettersWithoutTablesSayThatTheyAreMissing(t *testing.T) {
	t.Parallel()
	d := deadLetters(t, unmigrated(t))
	_, err := d.List(t.Context(), everyLetter)
	require.ErrorIs(t, err, outbox.ErrSchemaVersion)
	require.ErrorContains(t, err, `outbox: listing the dead letters of "public"."outbox": `)
	for _, err := range []error{second(d.Requeue(t.Context(), everyLetter)), second(d.Discard(t.Context(), everyLetter))} {
		require.ErrorIs(t, err, outbox.ErrSchemaVersion)
	}
}

func TestEachFieldOfAFilterNarrows(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	execute(t, pool, `INSERT INTO public.outbox_dead (txid, id, lane, topic, key, uuid, metadata, created_at, attempts, last_error, died_at, holds, tail)
		SELECT '7', id, 0, topic, key, uuid, '{}', now(), 1, error, clock_timestamp() - age::interval, key <> '', false
		FROM (VALUES
			(1, 'orders', 'a', 'u1', '100% refused', '3 hours'),
			(2, 'orders', '', 'u2', '100 per cent refused', '2 hours'),
			(3, 'invoices', 'a', 'u3', 'a_b', '1 hour'),
			(4, 'invoices', 'b', 'u4', 'acb', '1 minute'),
			(5, 'orders', 'ä''"\', 'u''5', 'Refused \ "here"', '0')) v(id, topic, key, uuid, error, age)`)
	for _, c := range []struct {
		filter outbox.DeadLetterFilter
		want   []int64
	}{
		{outbox.DeadLetterFilter{}, []int64{1, 2, 3, 4, 5}},
		{outbox.DeadLetterFilter{All: true}, []int64{1, 2, 3, 4, 5}},
		{outbox.DeadLetterFilter{IDs: []int64{5, 2, 2, 9}}, []int64{2, 5}},
		{outbox.DeadLetterFilter{IDs: []int64{}}, []int64{}},
		{outbox.DeadLetterFilter{All: true, IDs: []int64{}}, []int64{}},
		{outbox.DeadLetterFilter{UUID: "u3"}, []int64{3}},
		{outbox.DeadLetterFilter{UUID: "u'5"}, []int64{5}},
		{outbox.DeadLetterFilter{Topic: "orders"}, []int64{1, 2, 5}},
		{outbox.DeadLetterFilter{Topic: "Orders"}, []int64{}},
		{outbox.DeadLetterFilter{Key: "a"}, []int64{1, 3}},
		{outbox.DeadLetterFilter{Key: `ä'"\`}, []int64{5}},
		{outbox.DeadLetterFilter{ErrorContains: "refused"}, []int64{1, 2}},
		{outbox.DeadLetterFilter{ErrorContains: "100%"}, []int64{1}},
		{outbox.DeadLetterFilter{ErrorContains: "a_b"}, []int64{3}},
		{outbox.DeadLetterFilter{ErrorContains: `\ "`}, []int64{5}},
		{outbox.DeadLetterFilter{OlderThan: 90 * time.Minute}, []int64{1, 2}},
		{outbox.DeadLetterFilter{OlderThan: 1<<63 - 1}, []int64{}},
		{outbox.DeadLetterFilter{AfterID: 3}, []int64{4, 5}},
		{outbox.DeadLetterFilter{Limit: 2}, []int64{1, 2}},
		{outbox.DeadLetterFilter{Limit: -1, AfterID: 4}, []int64{5}},
		{outbox.DeadLetterFilter{Topic: "orders", Key: "a", ErrorContains: "refused", OlderThan: time.Hour, IDs: []int64{1, 2}}, []int64{1}},
		{outbox.DeadLetterFilter{All: true, Topic: "invoices", Key: "b"}, []int64{4}},
	} {
		require.Equal(t, c.want, ids(list(t, pool, c.filter)), "%+v", c.filter)
	}
}
