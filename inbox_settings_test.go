package outbox_test

import (
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// What the broker is told to be done must survive a crash of the server.
func TestInboxCommitsToTheDiskWhateverTheDatabasesSetting(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		for _, test := range []struct{ inherited, want string }{{"off", "local"}, {"local", "local"}, {"on", "on"}} {
			setForDatabase(t, c.pool, "synchronous_commit = "+test.inherited)
			h := c.inbox(t, 1, serviceConfig()).Middleware(func(msg *message.Message) ([]*message.Message, error) {
				return nil, inTx(msg.Context(), `INSERT INTO public.effects SELECT $1 || current_setting('synchronous_commit')`, test.inherited+" is ")
			})
			require.NoError(t, handle(h, incoming(t, test.inherited)))
			require.Equal(t, 1, c.effects(t, test.inherited+" is "+test.want))
		}
	})
}

func TestInboxWorksWhereTransactionsBeginReadOnlyAndSerializable(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		c.fillInbox(t, "shop", 1, 20_000, "31 days")
		setForDatabase(t, c.pool, "default_transaction_read_only = on")
		setForDatabase(t, c.pool, "default_transaction_isolation = serializable")
		config := serviceConfig()
		config.PublishTopic = "done"
		h := c.inbox(t, 1, config).Middleware(func(msg *message.Message) ([]*message.Message, error) {
			return []*message.Message{message.NewMessage("", nil)}, effect(msg.Context(), msg.UUID)
		})
		for range 2 {
			require.NoError(t, handle(h, incoming(t, "a")))
		}
		require.Equal(t, 1, c.effects(t, "a"))
		require.Equal(t, 1, c.number(t, `public.outbox`))
		var pruning sync.WaitGroup
		for range 3 {
			inbox := c.inbox(t, 1, config)
			pruning.Go(func() {
				_, err := inbox.Prune(t.Context())
				require.NoError(t, err)
			})
		}
		pruning.Wait()
		require.Equal(t, 1, c.number(t, `public.outbox_inbox`))
	})
}

// OnDuplicate may use the pool, however small that is.
func TestACopysTransactionHasEndedWhenOnDuplicateIsCalled(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		called := 0
		config := serviceConfig()
		config.OnDuplicate = func(*message.Message) {
			called++
			require.Zero(t, c.number(t, `pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`))
		}
		h := c.inbox(t, 1, config).Middleware(takesEffect)
		for range 3 {
			require.NoError(t, handle(h, incoming(t, "a")))
		}
		require.Equal(t, 2, called)
	})
}

// What the handler returned would be committed by itself.
func TestNothingIsWrittenOutsideATransactionThatTheHandlerEnded(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		config := serviceConfig()
		config.PublishTopic = "done"
		inbox := c.inbox(t, 1, config)
		err := handle(inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			out := []*message.Message{message.NewMessage("", nil)}
			if tx, ok := outbox.TxFromContext(msg.Context()); ok {
				return out, tx.Rollback()
			}
			return out, inTx(msg.Context(), `ROLLBACK`) // which pgx's transaction does not notice, but the inbox does
		}), incoming(t, "a"))
		require.ErrorContains(t, err, "the handler has ended the transaction; it must leave that to the inbox")
		require.Zero(t, c.number(t, `public.outbox`)+c.recorded(t, "a"))
		require.NoError(t, handle(inbox.Middleware(takesEffect), incoming(t, "a")))
	})
}

// The default may change while an inbox is at work.
func TestInboxNoticesThatTransactionsHaveBecomeReadOnly(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		h := c.inbox(t, 1, serviceConfig()).Middleware(takesEffect)
		require.NoError(t, handle(h, incoming(t, "before")))
		setForDatabase(t, c.pool, "default_transaction_read_only = on")
		_, err := c.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		require.NoError(t, err)
		eventually(t, "the message takes effect", func() bool { return handle(h, incoming(t, "after")) == nil })
		require.Equal(t, 1, c.effects(t, "after"))
	})
}
