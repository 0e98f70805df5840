package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// code gives an error's SQLSTATE, whichever driver it comes from.
func code(err error) string {
	var pgxErr *pgconn.PgError
	var pqErr *pq.Error
	switch {
	case errors.As(err, &pgxErr):
		return pgxErr.Code
	case errors.As(err, &pqErr):
		return string(pqErr.Code)
	default:
		return fmt.Sprint("no SQLSTATE: ", err)
	}
}

// inTx executes a statement in the inbox's transaction.
func inTx(ctx context.Context, statement string, args ...any) error {
	if tx, ok := outbox.TxFromContext(ctx); ok {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	}
	tx, _ := outbox.PgxTxFromContext(ctx)
	_, err := tx.Exec(ctx, statement, args...)
	return err
}

// copies runs a handler on two copies of a message. The first is in the middle when the second comes and has to wait for
// it; then the first ends with an error, or with none.
func copies(t *testing.T, c consuming, inbox *outbox.Inbox, firstEnds error) (handled int, first, second error) {
	t.Helper()
	var count atomic.Int32
	inside, goOn := make(chan struct{}), make(chan struct{})
	h := inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		err := effect(msg.Context(), msg.UUID)
		if count.Add(1) == 1 {
			close(inside)
			<-goOn
			return nil, errors.Join(err, firstEnds)
		}
		return nil, err
	})
	var copies sync.WaitGroup
	copies.Go(func() { first = handle(h, incoming(t, "a")) })
	<-inside
	copies.Go(func() { second = handle(h, incoming(t, "a")) })
	c.waiting(t, 1)
	close(goOn)
	copies.Wait()
	return int(count.Load()), first, second
}

var levels = []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

func TestACopyWaitsForTheFirstAndIsSkippedWhenThatCommits(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		for _, level := range levels {
			config := serviceConfig()
			config.Consumer, config.TxOptions = level.String(), &sql.TxOptions{Isolation: level}
			inbox := c.inbox(t, 2, config)
			handled, first, second := copies(t, c, inbox, nil)
			require.NoError(t, first)
			require.Equal(t, 1, handled)
			if level > sql.LevelReadCommitted { // its snapshot is older than the first's commit
				require.Equal(t, "40001", code(second), level)
				second = handle(inbox.Middleware(takesEffect), incoming(t, "a")) // redelivered
			}
			require.NoError(t, second)
			require.Equal(t, 1, c.effects(t, "a"), level)
			execute(t, c.pool, `DELETE FROM public.effects`)
		}
	})
}

func TestACopyRunsWhenTheFirstRollsBack(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		broken := errors.New("broken")
		for _, level := range levels {
			config := serviceConfig()
			config.Consumer, config.TxOptions = level.String(), &sql.TxOptions{Isolation: level}
			handled, first, second := copies(t, c, c.inbox(t, 2, config), broken)
			require.ErrorIs(t, first, broken)
			require.NoError(t, second)
			require.Equal(t, 2, handled)
			require.Equal(t, 1, c.effects(t, "a"), level)
			execute(t, c.pool, `DELETE FROM public.effects`)
		}
	})
}

// The database's default would make copies fail that need only be skipped.
func TestInboxDoesNotInheritTheDatabasesIsolationLevel(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		setForDatabase(t, c.pool, "default_transaction_isolation = serializable")
		handled, first, second := copies(t, c, c.inbox(t, 2, serviceConfig()), nil)
		require.NoError(t, first)
		require.NoError(t, second)
		require.Equal(t, 1, handled)
	})
}

func TestOneConnectionServesAllHandlers(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		config := serviceConfig()
		config.PublishTopic = "done"
		inbox := c.inbox(t, 1, config)
		var handlers sync.WaitGroup
		for i := range 60 {
			handlers.Go(func() {
				h := inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
					return []*message.Message{message.NewMessage("", nil)}, effect(msg.Context(), msg.UUID)
				})
				require.NoError(t, handle(h, incoming(t, fmt.Sprint(i%20))))
			})
		}
		handlers.Wait()
		require.Equal(t, 20, c.number(t, `public.effects`))
		require.Equal(t, 20, c.number(t, `public.outbox`))
		require.Equal(t, 20, c.number(t, `public.outbox_inbox`))
	})
}

// A copy does not wait for ever, and neither does one that gets no connection.
func TestTxTimeoutBoundsTheWait(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		for conns := 1; conns <= 2; conns++ {
			config := serviceConfig()
			config.Consumer, config.TxTimeout = fmt.Sprint(conns), 2*time.Second
			inbox := c.inbox(t, conns, config)
			require.NoError(t, handle(inbox.Middleware(takesEffect), incoming(t, "connects")))
			h := inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				err := handle(inbox.Middleware(takesEffect), incoming(t, msg.UUID)) // as another goroutine would
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, `outbox: recording message "a" took longer than InboxConfig.TxTimeout, 2s`)
				return takesEffect(msg)
			})
			require.NoError(t, handle(h, incoming(t, "a")), "the handler itself may take longer")
			require.Equal(t, conns, c.effects(t, "a"))
		}
	})
}
