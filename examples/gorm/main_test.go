package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestEveryOrderHasOneInvoice(t *testing.T) {
	url := testdb.URL(t)
	t.Setenv("DATABASE_URL", url)
	t.Setenv("BROKER_URL", "gochannel://")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "Every order has one invoice")

	pool := testdb.Open(t, url)
	var orders, invoices, invoiced int
	var vouchers, letters string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM gormshop.orders`).Scan(&orders))
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT string_agg(code, ' ' ORDER BY code) FROM gormshop.vouchers`).Scan(&vouchers))
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT string_agg(code, ' ' ORDER BY code) FROM gormshop.letters`).Scan(&letters))
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT order_id) FROM gormshop.invoices
		JOIN gormshop.orders ON orders.id = order_id AND orders.cents = invoices.cents`).Scan(&invoices, &invoiced))
	require.Equal(t, 75, orders, "90 less one in six")
	require.Equal(t, []int{orders, orders}, []int{invoices, invoiced})
	require.Equal(t, vouchers, letters)
}
