package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestBalanceCountsWhatIsBroken(t *testing.T) {
	t.Setenv("DATABASE_URL", testdb.URL(t))
	d, err := openDatabase(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, d.close()) }()
	for name, test := range map[string]struct {
		book string
		want report
	}{
		"all is well":  {`(1), (2), (3)`, report{booked: 3}},
		"lost":         {`(1), (2)`, report{booked: 2, lost: 1, wrong: 1}},
		"leaked":       {`(1), (2), (3), (4)`, report{booked: 3, leaked: 1, wrong: 1}},
		"booked twice": {`(1), (2), (2), (3)`, report{booked: 3, twice: 1, outOfOrder: 1, wrong: 1}},
		"out of order": {`(1), (3), (2)`, report{booked: 3, outOfOrder: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.pool.Exec(t.Context(), `TRUNCATE bookings, orders; UPDATE totals SET orders = 0, cents = 0;
				INSERT INTO orders SELECT g, 7, g, 100 FROM generate_series(1, 3) g;
				INSERT INTO bookings (order_id, customer, number) SELECT n, 7, n FROM (VALUES `+test.book+`) b(n);
				UPDATE totals SET (orders, cents) = (SELECT count(*), 100 * count(*) FROM bookings) WHERE customer = 7`)
			require.NoError(t, err)
			got := report{}
			require.NoError(t, got.count(t.Context(), d.pool))
			got.perSecond, test.want.committed = 0, 3
			require.Equal(t, test.want, got)
		})
	}
}

func TestReportShowsWhatIsBroken(t *testing.T) {
	for name, broken := range map[string]report{
		"lost": {lost: 1}, "leaked": {leaked: 1}, "twice": {twice: 1}, "wrong": {wrong: 1}, "out of order": {outOfOrder: 1},
		"left": {left: 1}, "still dead": {dead: requeued{after: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			broken.print(newScreen(&out))
			require.False(t, broken.holds())
			require.Contains(t, out.String(), "✘ broken")
			require.Contains(t, out.String(), "An invariant is broken.")
		})
	}
	var out bytes.Buffer
	(&report{committed: 12345, booked: 12345}).print(newScreen(&out))
	require.Contains(t, out.String(), "12,345")
	require.NotContains(t, out.String(), "broken")
}
