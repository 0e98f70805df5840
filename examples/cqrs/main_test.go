package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestEveryCommandAndEventTakesEffectOnce(t *testing.T) {
	url := testdb.URL(t)
	t.Setenv("DATABASE_URL", url)
	t.Setenv("BROKER_URL", "gochannel://")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "took effect once at each handler")
	require.Regexp(t, `failed tries +4`, out.String(), "six, two of which were cancelled")

	pool := testdb.Open(t, url)
	for _, query := range []string{
		`SELECT count(*) FROM hotel.requests`, `SELECT count(DISTINCT request) FROM hotel.bookings`,
		`SELECT count(*) FROM hotel.beers`, `SELECT sum(bookings) FROM hotel.reports`,
	} {
		var count int
		require.NoError(t, pool.QueryRow(t.Context(), query).Scan(&count))
		require.Equal(t, 50, count, "%s: 60 less one in six", query)
	}
}

func TestBusesWantATransaction(t *testing.T) {
	buses, err := newBuses()
	require.NoError(t, err)
	require.ErrorIs(t, buses.commands.Send(t.Context(), &OrderBeer{Guest: "alice"}), outbox.ErrNoTransaction)
	require.ErrorIs(t, buses.events.Publish(t.Context(), &RoomBooked{Guest: "alice"}), outbox.ErrNoTransaction)
}
