package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// fillInbox records messages of a consumer that came so long ago.
func (c consuming) fillInbox(t testing.TB, consumer string, from, to int, age string) {
	t.Helper()
	_, err := c.pool.Exec(t.Context(), `INSERT INTO public.outbox_inbox SELECT $4, '', g::text, now() - $3::text::interval FROM generate_series($1::int, $2::int) g`,
		from, to, age, consumer)
	require.NoError(t, err)
}

func TestPruneForgetsWhatIsOlderThanTheRetention(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		c.fillInbox(t, "shop", 1, 2500, "31 days")
		c.fillInbox(t, "shop", 2501, 2600, "29 days")
		c.fillInbox(t, "another service", 1, 10, "31 days")
		keeps := serviceConfig()
		keeps.Retention = -1
		forgotten, err := c.inbox(t, 1, keeps).Prune(t.Context())
		require.NoError(t, err)
		require.Zero(t, forgotten)
		inbox := c.inbox(t, 1, serviceConfig())
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = inbox.Prune(ended)
		require.ErrorIs(t, err, context.Canceled)
		forgotten, err = inbox.Prune(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2500, forgotten)
		require.Equal(t, 100, c.number(t, `public.outbox_inbox WHERE consumer = 'shop'`))
		require.Equal(t, 10, c.number(t, `public.outbox_inbox WHERE consumer = 'another service'`), "which may keep them for longer")

		require.NoError(t, handle(inbox.Middleware(takesEffect), incoming(t, "2600")), "known")
		require.NoError(t, handle(inbox.Middleware(takesEffect), incoming(t, "1")), "replayed after the retention, it takes effect again")
		require.Equal(t, 1, c.number(t, `public.effects`))
	})
}

func TestInboxPrunesItselfNowAndThen(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		c.fillInbox(t, "shop", 1, 2500, "31 days")
		h := c.inbox(t, 1, serviceConfig()).Middleware(takesEffect)
		n := 0
		eventually(t, "all is forgotten", func() bool {
			n++
			require.NoError(t, handle(h, incoming(t, fmt.Sprint("new ", n))))
			return c.number(t, `public.outbox_inbox`) == n
		})
	})
}

func TestSeveralPruneBesideHandlersWithoutDeadlock(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		const old, fresh = 20_000, 300
		c.fillInbox(t, "shop", 1, old, "31 days")
		execute(t, c.pool, `ALTER TABLE public.effects ADD UNIQUE (id)`)
		config := serviceConfig()
		config.Retention = 24 * time.Hour
		var total atomic.Int64
		var all sync.WaitGroup
		for range 3 {
			inbox := c.inbox(t, 2, config)
			all.Go(func() {
				forgotten, err := inbox.Prune(t.Context())
				require.NoError(t, err)
				total.Add(forgotten)
			})
			all.Go(func() {
				keeps := config
				keeps.Retention = -1
				h := c.inbox(t, 2, keeps).Middleware(takesEffect)
				for i := range fresh {
					require.NoError(t, handle(h, incoming(t, fmt.Sprint("new ", i))))
				}
			})
		}
		all.Wait()
		require.EqualValues(t, old, total.Load(), "each row counts once")
		require.Equal(t, fresh, c.number(t, `public.outbox_inbox`))
		require.Equal(t, fresh, c.number(t, `public.effects`))
	})
}

// Deduplication holds across days: there are no partitions that would each have a uniqueness of their own.
func TestInboxKnowsAMessageAcrossMidnight(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		h := c.inbox(t, 1, serviceConfig()).Middleware(takesEffect)
		require.NoError(t, handle(h, incoming(t, "a")))
		execute(t, c.pool, `UPDATE public.outbox_inbox SET received_at = date_trunc('day', now()) - interval '1 second'`)
		require.NoError(t, handle(h, incoming(t, "a")))
		require.Equal(t, 1, c.effects(t, "a"))
		require.Equal(t, 1, c.number(t, `public.outbox_inbox`))
	})
}

func TestPruneSaysWhenTheTablesAreMissing(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		config := serviceConfig()
		config.Schema.Table = "elsewhere"
		_, err := c.inbox(t, 1, config).Prune(t.Context())
		require.ErrorContains(t, err, `outbox: pruning the inbox of "public"."elsewhere"`)
		require.ErrorIs(t, err, outbox.ErrSchemaVersion)
		_, err = c.inbox(t, 1, config).Prune(nil) //nolint:staticcheck // that is what is tested
		require.ErrorContains(t, err, "outbox: ctx: it is nil")
	})
}
