package outbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// An outsider is whoever locks rows without owning their lane. Only the rows' own keys may wait for it.

// lock is an outsider's transaction that holds the locks of some rows.
func lock(t *testing.T, pool *pgxpool.Pool, where string) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
	_, err = tx.Exec(t.Context(), `SELECT FROM public.outbox WHERE `+where+` FOR UPDATE`)
	require.NoError(t, err)
	return tx
}

func TestALockedLargeMessageStopsNobodyElse(t *testing.T) {
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			pool, out := migrated(t), newBroker()
			config := outbox.ForwarderConfig{Workers: workers, BatchBytes: 40_000, PollInterval: 50 * time.Millisecond}
			put(t, pool, "orders", "large", strings.Repeat("x", 200_000), "behind")
			put(t, pool, "orders", "another", strings.Repeat("y", 200_000))
			outsider := lock(t, pool, "id = 1")
			n, err := forwarder(t, pool, out, config).RunOnce(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, n)
			start(t, forwarder(t, pool, out, config))
			for i := range 30 {
				put(t, pool, "orders", fmt.Sprint("k", i), "small")
				out.await(t, 2+i)
			}
			require.NoError(t, outsider.Rollback(t.Context()))
			out.await(t, 33)
			require.Equal(t, []string{strings.Repeat("x", 200_000), "behind"}, out.payloads("large"))
		})
	}
}

func TestLargeMessagesThatAreRefusedStopNobodyElse(t *testing.T) {
	for name, test := range map[string]struct{ workers, share int }{
		"1 worker, each above its bytes": {1, 40_000}, "4 workers, each above their bytes": {4, 10_000},
		"1 worker, two fill its bytes": {1, 450_000}, "4 workers, two fill their bytes": {4, 450_000},
	} {
		t.Run(name, func(t *testing.T) {
			pool, out := migrated(t), newBroker()
			out.fail = func(_ string, msg *message.Message) error {
				if len(msg.Payload) > 10_000 {
					return errors.New("message too large")
				}
				return nil
			}
			put(t, pool, "orders", "large", strings.Repeat("x", 200_000), strings.Repeat("y", 200_000))
			for i := range 20 {
				put(t, pool, "orders", fmt.Sprint("large", i), strings.Repeat("z", 200_000))
			}
			f := start(t, forwarder(t, pool, out, outbox.ForwarderConfig{
				Workers: test.workers, BatchBytes: test.workers * test.share, PollInterval: 50 * time.Millisecond}))
			eventually(t, "the trouble shows", func() bool { return f.Health() != nil })
			for i := range 30 {
				put(t, pool, "orders", fmt.Sprint("k", i), "small")
				out.await(t, 1+i)
			}
			eventually(t, "the large ones are convicted, but for the one behind another", func() bool {
				put(t, pool, "orders", "", "evidence that the broker lives")
				return count(t, pool, "attempts > 0") == 21
			})
		})
	}
}

func TestMessagesBehindManyLockedOnesAreReached(t *testing.T) {
	pool, out := migrated(t), newBroker()
	_, err := pool.Exec(t.Context(), `INSERT INTO public.outbox (topic, key, uuid)
		SELECT 'orders', CASE WHEN g <= 1000 THEN 'a' ELSE '' END, g::text FROM generate_series(1, 5000) g`)
	require.NoError(t, err)
	outsider := lock(t, pool, "id = 1 OR id > 1000")
	var sameLane string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT k FROM generate_series(1, 10000) g, LATERAL (SELECT 'key' || g AS k) s
		WHERE (hashtextextended(k COLLATE "C", 0) & 63) = (SELECT lane FROM public.outbox WHERE id = 1) LIMIT 1`).Scan(&sameLane))
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{PollInterval: 50 * time.Millisecond}))
	put(t, pool, "orders", sameLane, "1")
	for i := range 64 {
		put(t, pool, "orders", fmt.Sprint("k", i), "1")
	}
	out.await(t, 65)
	require.Empty(t, out.payloads("a"))
	require.NoError(t, outsider.Rollback(t.Context()))
	out.await(t, 5065)
}

func TestAnotherClientEncodingIsNoMatter(t *testing.T) {
	url, out := testdb.URL(t), newBroker()
	pool := testdb.Open(t, url)
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{}))
	put(t, pool, "ordersä", "日", "1")
	latin := testdb.Open(t, url+"&client_encoding=LATIN1&pool_max_conns=10")
	n, err := forwarder(t, latin, out, outbox.ForwarderConfig{}).RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, "ordersä", out.all()[0].topic)
	require.Equal(t, []string{"1"}, out.payloads("日"))
}
