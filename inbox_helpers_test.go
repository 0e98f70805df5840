package outbox_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// consuming is a database whose handlers count their effects in a table.
type consuming struct {
	pool *pgxpool.Pool
	// inbox makes inboxes on the driver under test, with a pool of so many connections.
	inbox func(t testing.TB, conns int, config outbox.InboxConfig) *outbox.Inbox
}

// consumerDrivers are the ways to the database that inboxes are used with.
var consumerDrivers = map[string]func(url string) func(testing.TB, int, outbox.InboxConfig) *outbox.Inbox{
	"pgx": pgxInboxes,
	"stdlib": func(url string) func(testing.TB, int, outbox.InboxConfig) *outbox.Inbox {
		return sqlInboxes("pgx", url)
	},
	"pq": func(url string) func(testing.TB, int, outbox.InboxConfig) *outbox.Inbox {
		return sqlInboxes("postgres", url)
	},
}

func pgxInboxes(url string) func(testing.TB, int, outbox.InboxConfig) *outbox.Inbox {
	return func(t testing.TB, conns int, config outbox.InboxConfig) *outbox.Inbox {
		t.Helper()
		pool := testdb.Open(t, url, func(c *pgxpool.Config) { c.MaxConns = int32(conns) })
		inbox, err := outbox.NewPgxInbox(pool, config, nil)
		require.NoError(t, err)
		return inbox
	}
}

func sqlInboxes(driver, url string) func(testing.TB, int, outbox.InboxConfig) *outbox.Inbox {
	return func(t testing.TB, conns int, config outbox.InboxConfig) *outbox.Inbox {
		t.Helper()
		db := openSQL(t, driver, url)
		db.SetMaxOpenConns(conns)
		inbox, err := outbox.NewInbox(db, config, nil)
		require.NoError(t, err)
		return inbox
	}
}

// onEachDriver runs a test with each driver, on a database of its own.
func onEachDriver(t *testing.T, test func(t *testing.T, c consuming)) {
	t.Helper()
	for name, inboxes := range consumerDrivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testdb.URL(t)
			pool := testdb.Open(t, url)
			require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{}))
			execute(t, pool, `CREATE TABLE public.effects (id text NOT NULL)`)
			test(t, consuming{pool, inboxes(url)})
		})
	}
}

// effect is what a handler does in the inbox's transaction.
func effect(ctx context.Context, id string) error {
	const insert = `INSERT INTO public.effects VALUES ($1)`
	if tx, ok := outbox.TxFromContext(ctx); ok {
		_, err := tx.ExecContext(ctx, insert, id)
		return err
	}
	if tx, ok := outbox.PgxTxFromContext(ctx); ok {
		_, err := tx.Exec(ctx, insert, id)
		return err
	}
	return fmt.Errorf("no transaction in the context of %s", id)
}

// takesEffect is the handler that does only that.
func takesEffect(msg *message.Message) ([]*message.Message, error) {
	return nil, effect(msg.Context(), msg.UUID)
}

// incoming makes a message as a subscriber hands it over.
func incoming(t testing.TB, id string) *message.Message {
	t.Helper()
	return message.NewMessageWithContext(t.Context(), id, []byte("payload of "+id))
}

func handle(h message.HandlerFunc, msg *message.Message) error {
	_, err := h(msg)
	return err
}

func (c consuming) effects(t testing.TB, id string) int {
	t.Helper()
	return c.number(t, `public.effects WHERE id = $1`, id)
}

func (c consuming) recorded(t testing.TB, id string) int {
	t.Helper()
	return c.number(t, `public.outbox_inbox WHERE message_id = $1`, id)
}

func (c consuming) number(t testing.TB, from string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n))
	return n
}

// waiting waits until so many sessions wait for another one's transaction.
func (c consuming) waiting(t testing.TB, sessions int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d sessions wait", sessions), func() bool {
		return c.number(t, `pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'`) == sessions
	})
}

// serviceConfig needs no router.
func serviceConfig() outbox.InboxConfig { return outbox.InboxConfig{Consumer: "shop"} }
