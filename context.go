package outbox

import (
	"context"
	"database/sql"
	"errors"
	"reflect"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
)

// ErrMixedTransactions is returned by a context publisher when the messages of one Publish call carry different
// transactions.
var ErrMixedTransactions = errors.New("outbox: the messages of one Publish carry different transactions; publish them in a call each")

type transactionKey struct{}

// carried is a transaction in a context. Only the innermost counts.
type carried struct {
	executor executor
	identity any // the SQLExecutor or PgxExecutor
}

// ContextWithTx gives a context that carries a transaction for publishers of NewContextPublisher. Hand it to
// cqrs.EventBus.Publish, or to msg.SetContext.
func ContextWithTx(ctx context.Context, tx SQLExecutor) context.Context {
	return context.WithValue(ctx, transactionKey{}, &carried{executor: sqlExecutor(tx), identity: tx})
}

// ContextWithPgxTx is ContextWithTx for pgx.
func ContextWithPgxTx(ctx context.Context, tx PgxExecutor) context.Context {
	return context.WithValue(ctx, transactionKey{}, &carried{executor: pgxExecutor(tx), identity: tx})
}

// TxFromContext gives the *sql.Tx that a context carries: a message's of NewInbox, or what ContextWithTx has put there.
// Only the innermost counts.
func TxFromContext(ctx context.Context) (*sql.Tx, bool) { return carriedAs[*sql.Tx](ctx) }

// PgxTxFromContext is TxFromContext for pgx.
func PgxTxFromContext(ctx context.Context) (pgx.Tx, bool) { return carriedAs[pgx.Tx](ctx) }

func carriedAs[T any](ctx context.Context) (tx T, ok bool) {
	if c, _ := ctx.Value(transactionKey{}).(*carried); c != nil && c.executor != nil {
		tx, ok = c.identity.(T)
	}
	return tx, ok
}

// transactionOf finds the one transaction that all messages carry.
func transactionOf(messages []*message.Message) (executor, error) {
	var first *carried
	for i, msg := range messages {
		tx, _ := msg.Context().Value(transactionKey{}).(*carried)
		if tx == nil || tx.executor == nil {
			return nil, &MessageError{Index: i, UUID: msg.UUID, Field: "transaction", Err: ErrNoTransaction}
		}
		if first == nil {
			first = tx
		}
		if !tx.same(first) {
			return nil, &MessageError{Index: i, UUID: msg.UUID, Field: "transaction", Err: ErrMixedTransactions}
		}
	}
	return first.executor, nil
}

// same compares what was put into the contexts. Values that Go can't compare are the same only as one context's.
func (c *carried) same(other *carried) bool {
	if c == other {
		return true
	}
	a, b := reflect.ValueOf(c.identity), reflect.ValueOf(other.identity)
	return a.Comparable() && b.Comparable() && c.identity == other.identity
}
