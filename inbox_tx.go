package outbox

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
)

// inboxDatabase is where an inbox keeps its messages, whichever driver's it is.
type inboxDatabase interface {
	transactor
	// begin opens a transaction and records a message in it. Unless first, it was recorded before.
	begin(ctx context.Context, place inboxPlace, id identity) (tx inboxTx, first bool, err error)
}

// inboxTx is the transaction of one message.
type inboxTx interface {
	// carry puts the transaction into a handler's context.
	carry(ctx context.Context) context.Context
	// execute writes what the handler has returned: into the transaction, or not at all.
	execute(ctx context.Context, query string, args ...any) (int64, error)
	commit(ctx context.Context) error
	// rollback does nothing after a commit.
	rollback(ctx context.Context)
}

// isolationLevels are those that an inbox can work under.
var isolationLevels = map[sql.IsolationLevel]pgx.TxIsoLevel{
	sql.LevelDefault:        pgx.ReadCommitted,
	sql.LevelReadCommitted:  pgx.ReadCommitted,
	sql.LevelRepeatableRead: pgx.RepeatableRead,
	sql.LevelSerializable:   pgx.Serializable,
}

// errEndedByHandler is what a commit meets when there is nothing left to commit.
var errEndedByHandler = errors.New("the handler has ended the transaction; it must leave that to the inbox, and return nil or an error")

// limited gives each step of the inbox its time.
func (c InboxConfig) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.TxTimeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.TxTimeout)
}
