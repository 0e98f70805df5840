package outbox_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestInboxLetsAMessageTakeEffectOnce(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		var skipped []string
		config := serviceConfig()
		config.OnDuplicate = func(msg *message.Message) { skipped = append(skipped, msg.UUID) }
		h := c.inbox(t, 1, config).Middleware(takesEffect)
		for range 3 {
			require.NoError(t, handle(h, incoming(t, "a")))
			require.NoError(t, handle(h, incoming(t, "b")))
		}
		require.Equal(t, 1, c.effects(t, "a"))
		require.Equal(t, 1, c.effects(t, "b"))
		require.Equal(t, []string{"a", "b", "a", "b"}, skipped)
	})
}

// Recorded before it succeeds, a message that failed would be dropped when it is tried again.
func TestInboxRecordsNothingOfAFailedTry(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		broken, tries := errors.New("broken"), 0
		h := c.inbox(t, 1, serviceConfig()).Middleware(func(msg *message.Message) ([]*message.Message, error) {
			tries++
			if err := effect(msg.Context(), msg.UUID); err != nil {
				return nil, err
			}
			if tries < 3 {
				return nil, broken
			}
			return nil, nil
		})
		for range 2 {
			require.Same(t, broken, handle(h, incoming(t, "a")), "as the handler returned it")
			require.Zero(t, c.effects(t, "a")+c.recorded(t, "a"))
		}
		require.NoError(t, handle(h, incoming(t, "a")))
		require.NoError(t, handle(h, incoming(t, "a")))
		require.Equal(t, 3, tries)
		require.Equal(t, 1, c.effects(t, "a"))
	})
}

func TestInboxLeavesAPanicItsStack(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		inbox := c.inbox(t, 1, serviceConfig())
		h := inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			require.NoError(t, effect(msg.Context(), msg.UUID))
			panicsHere()
			return nil, nil
		})
		msg := incoming(t, "a")
		own := msg.Context()
		func() {
			defer func() {
				require.Equal(t, "from the handler", recover())
				stack := make([]byte, 1<<16)
				require.Contains(t, string(stack[:runtime.Stack(stack, false)]), "panicsHere", "recovering on the way would have lost it")
			}()
			_, _ = h(msg)
		}()
		require.Equal(t, own, msg.Context())
		require.Zero(t, c.effects(t, "a")+c.recorded(t, "a"))
		require.NoError(t, handle(inbox.Middleware(takesEffect), incoming(t, "a")), "with the only connection")
		require.Equal(t, 1, c.effects(t, "a"))
	})
}

func panicsHere() { panic("from the handler") }

func TestInboxRollsBackWhenTheHandlersGoroutineExits(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		inbox := c.inbox(t, 1, serviceConfig())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				_ = effect(msg.Context(), msg.UUID)
				runtime.Goexit()
				return nil, nil
			})(incoming(t, "a"))
		}()
		<-gone
		require.NoError(t, handle(inbox.Middleware(takesEffect), incoming(t, "a")))
		require.Equal(t, 1, c.effects(t, "a"))
	})
}

// One that swallows an SQL error leaves a transaction that can only be rolled back.
func TestInboxReportsATransactionThatCannotBeCommitted(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		inbox := c.inbox(t, 1, serviceConfig())
		h := inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			require.NoError(t, effect(msg.Context(), msg.UUID))
			require.Error(t, inTx(msg.Context(), `SELECT 1/0`))
			return nil, nil
		})
		require.ErrorContains(t, handle(h, incoming(t, "a")), `outbox: committing the effects of message "a"`)
		require.Zero(t, c.effects(t, "a")+c.recorded(t, "a"))
	})
}

// A constraint that is checked at commit makes the commit itself fail.
func TestInboxReportsACommitThatFails(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		execute(t, c.pool, `ALTER TABLE public.effects ADD CONSTRAINT once UNIQUE (id) DEFERRABLE INITIALLY DEFERRED`,
			`INSERT INTO public.effects VALUES ('a')`)
		h := c.inbox(t, 1, serviceConfig()).Middleware(takesEffect)
		require.Equal(t, "23505", code(handle(h, incoming(t, "a"))))
		require.Zero(t, c.recorded(t, "a"))
		execute(t, c.pool, `DELETE FROM public.effects`)
		require.NoError(t, handle(h, incoming(t, "a")))
		require.Equal(t, 1, c.effects(t, "a"))
	})
}

func TestInboxTellsWhenTheHandlerEndedItsTransaction(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		inbox := c.inbox(t, 1, serviceConfig())
		h := inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			if tx, ok := outbox.TxFromContext(msg.Context()); ok {
				return nil, tx.Rollback()
			}
			tx, _ := outbox.PgxTxFromContext(msg.Context())
			return nil, tx.Rollback(msg.Context())
		})
		require.ErrorContains(t, handle(h, incoming(t, "a")), "the handler has ended the transaction")
		require.NoError(t, handle(inbox.Middleware(takesEffect), incoming(t, "a")), "nothing was recorded")
	})
}

func TestInboxKnowsLongIDsAgain(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		h := c.inbox(t, 1, serviceConfig()).Middleware(func(msg *message.Message) ([]*message.Message, error) {
			return nil, effect(msg.Context(), "long")
		})
		random := strings.Repeat("0123456789abcdef", 1<<12)
		for _, id := range []string{random, random + "x", "müller", strings.Repeat("u", 300)} {
			require.NoError(t, handle(h, incoming(t, id)))
			require.NoError(t, handle(h, incoming(t, id)))
		}
		require.Equal(t, 4, c.effects(t, "long"))
	})
}
