package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// patience is how long a test waits for a condition, or for any progress towards it. It is not an assertion about time.
const patience = 30 * time.Second

const soakVariable = "OUTBOX_SOAK"

func TestMain(m *testing.M) {
	if order, ok := os.LookupEnv(childVariable); ok {
		if err := runChild(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	toxics.Register(swallowKind, &swallower{})
	testdb.Main(m)
}

// scaled gives how much a load test is to do.
func scaled(t testing.TB, n int) int {
	t.Helper()
	text := os.Getenv(soakVariable)
	if text == "" {
		return n
	}
	factor, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err, soakVariable)
	return max(1, int(float64(n)*factor))
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-tick.C
	}
}

// await waits for a signal.
func await(t testing.TB, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(patience):
		t.Fatalf("waited in vain until %s", what)
	}
}

func migrate(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{}))
}

// connections sets the size of a pool.
func connections(n int32) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.MaxConns = n }
}

func execute(t testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
}

func count(t testing.TB, pool *pgxpool.Pool, from string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&n))
	return n
}

// start runs a forwarder until the test ends, or until its own Close.
func start(t testing.TB, f *outbox.Forwarder) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		require.NoError(t, f.Close())
		require.NoError(t, <-ended)
	})
	await(t, "the forwarder runs", f.Running())
}

// pgCode gives the SQLSTATE of the server's error, "" if it is none.
func pgCode(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
