package outbox

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// pgxInbox is an inbox's database for pgx.
type pgxInbox struct {
	pgxTransactor
	config  InboxConfig
	sql     pgsql.Statements
	options pgx.TxOptions
}

func newPgxInbox(pool *pgxpool.Pool, config InboxConfig) pgxInbox {
	options := pgx.TxOptions{IsoLevel: isolationLevels[config.TxOptions.Isolation], AccessMode: pgx.ReadWrite}
	return pgxInbox{newPgxTransactor(pool), config, pgsql.Render(config.Schema.names()), options}
}

// begin takes one round trip for BEGIN and INSERT.
func (d pgxInbox) begin(ctx context.Context, _ inboxPlace, id identity) (inboxTx, bool, error) {
	ctx, cancel := d.config.limited(ctx)
	defer cancel()
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, false, err
	}
	var inserted int64
	batch := &pgx.Batch{}
	batch.BeginTx(d.options)
	batch.Queue(d.sql.Receive, id.consumer, id.handler, id.message).Exec(func(tag pgconn.CommandTag) error {
		inserted = tag.RowsAffected()
		return nil
	})
	results := conn.SendBatch(ctx, batch)
	tx := &pgxInboxTx{conn: conn, tx: results.Tx(), config: d.config}
	if err := results.Close(); err != nil {
		tx.rollback(context.WithoutCancel(ctx))
		return nil, false, err
	}
	return tx, inserted == 1, nil
}

// pgxInboxTx lets the handler's goroutines publish through the context until the end: then they get an error, and can't
// reach into the next message's transaction on the same connection.
type pgxInboxTx struct {
	conn   *pgxpool.Conn
	tx     pgx.Tx
	config InboxConfig

	mu    sync.Mutex
	ended bool
}

func (t *pgxInboxTx) carry(ctx context.Context) context.Context {
	return context.WithValue(ctx, transactionKey{}, &carried{executor: t.execute, identity: t.tx})
}

func (t *pgxInboxTx) execute(ctx context.Context, query string, args ...any) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return 0, pgx.ErrTxClosed
	}
	if !t.open() {
		return 0, errEndedByHandler
	}
	tag, err := t.tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (t *pgxInboxTx) commit(ctx context.Context) error {
	return t.end(ctx, func(ctx context.Context) error {
		if !t.open() {
			return errEndedByHandler
		}
		return t.tx.Commit(ctx)
	})
}

// open says whether the handler has left the transaction open. It may have ended it by SQL too, which pgx.Tx does not see.
func (t *pgxInboxTx) open() bool { return t.tx.Conn().PgConn().TxStatus() != 'I' }

func (t *pgxInboxTx) rollback(ctx context.Context) {
	_ = t.end(ctx, t.tx.Rollback) // what fails closes the connection, which rolls back too
}

func (t *pgxInboxTx) end(ctx context.Context, how func(context.Context) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	t.ended = true
	defer t.conn.Release()
	ctx, cancel := t.config.limited(ctx)
	defer cancel()
	return how(ctx)
}
