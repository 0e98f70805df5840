package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestStatementsAreCompleteAndInOrder(t *testing.T) {
	url := testdb.URL(t)
	t.Setenv("DATABASE_URL", url)
	t.Setenv("BROKER_URL", "gochannel://")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "no money was made or lost")

	pool := testdb.Open(t, url)
	var messages, entries, stated, disorder, cents int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM public.outbox`).Scan(&messages))
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT sum(entries), sum(cents) FROM bank.accounts`).Scan(&entries, &cents))
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT sum(entries), sum(disorder) FROM bank.statements`).Scan(&stated, &disorder))
	require.Zero(t, messages)
	require.Positive(t, entries)
	require.Equal(t, entries, stated)
	require.Zero(t, disorder)
	require.Equal(t, accounts*opening, cents)
}
