package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestEveryOrderGoesThroughTheChainOnce(t *testing.T) {
	url := testdb.URL(t)
	t.Setenv("DATABASE_URL", url)
	t.Setenv("BROKER_URL", "gochannel://")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "Every order went through the chain")
	require.Regexp(t, `failed tries +20`, out.String(), "13 at the printer and 7 at billing")

	pool := testdb.Open(t, url)
	for _, table := range []string{"orders", "parcels", "invoices"} {
		var rows int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM chain.`+table).Scan(&rows))
		require.Equal(t, orders, rows, table)
	}
	var reason string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT reason FROM chain.poisoned`).Scan(&reason))
	require.Contains(t, reason, errUnreadable.Error())
}

func TestPoisonQueueCanPublishAfterATimeout(t *testing.T) {
	var heard error
	publisher := func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := h(msg)
			heard = msg.Context().Err()
			return produced, err
		}
	}
	fails := func(*message.Message) ([]*message.Message, error) { return nil, errUnreadable }
	_, err := publisher(keepContext(middleware.Timeout(time.Minute)(fails)))(message.NewMessage("1", nil))
	require.ErrorIs(t, err, errUnreadable)
	require.NoError(t, heard)
}
