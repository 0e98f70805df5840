package outbox

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// given says what a caller left out.
func given(ctx context.Context, pool *pgxpool.Pool) error {
	switch {
	case ctx == nil:
		return errNilContext
	case pool == nil:
		return errNilPool
	}
	return nil
}

// database is what migrating and checking need of a connection, whichever driver's it is.
type database interface {
	// exec runs statements without parameters.
	exec(ctx context.Context, statements string) error
	// query calls each for every row.
	query(ctx context.Context, statement string, args []any, each func(scan func(dest ...any) error) error) error
}

// transactor begins transactions. They are rolled back unless do returns nil.
type transactor interface {
	database
	transaction(ctx context.Context, do func(tx database) error) error
}

// pgxQuerier is *pgxpool.Pool, *pgx.Conn, *pgxpool.Conn, pgx.Tx.
type pgxQuerier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

type pgxDatabase struct{ conn pgxQuerier }

func (d pgxDatabase) exec(ctx context.Context, statements string) error {
	_, err := d.conn.Exec(ctx, statements) // without parameters pgx takes the simple protocol: several are fine
	return err
}

// query asks by a batch of one: in the mode describe_exec a query alone is prepared in one round trip and executed in
// another, which a pooler in transaction mode takes to different connections.
func (d pgxDatabase) query(ctx context.Context, statement string, args []any, each func(scan func(dest ...any) error) error) error {
	batch := &pgx.Batch{}
	batch.Queue(statement, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if err := each(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	return d.conn.SendBatch(ctx, batch).Close()
}

type pgxTransactor struct {
	pgxDatabase
	pool *pgxpool.Pool
}

func newPgxTransactor(pool *pgxpool.Pool) pgxTransactor {
	return pgxTransactor{pgxDatabase{pool}, pool}
}

func (d pgxTransactor) transaction(ctx context.Context, do func(tx database) error) error {
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error { return do(pgxDatabase{tx}) })
}

// sqlQuerier is *sql.DB, *sql.Conn, *sql.Tx.
type sqlQuerier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type sqlDatabase struct{ conn sqlQuerier }

func (d sqlDatabase) exec(ctx context.Context, statements string) error {
	_, err := d.conn.ExecContext(ctx, statements)
	return err
}

func (d sqlDatabase) query(ctx context.Context, statement string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := d.conn.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

type sqlTransactor struct {
	sqlDatabase
	db *sql.DB
}

func newSQLTransactor(db *sql.DB) sqlTransactor { return sqlTransactor{sqlDatabase{db}, db} }

// query asks in a transaction: lib/pq by itself, and pgx's stdlib in the mode describe_exec, prepare in one round trip and
// execute in another, which a pooler in transaction mode takes to different connections.
func (d sqlTransactor) query(ctx context.Context, statement string, args []any, each func(scan func(dest ...any) error) error) error {
	return d.transaction(ctx, func(tx database) error { return tx.query(ctx, statement, args, each) })
}

func (d sqlTransactor) transaction(ctx context.Context, do func(tx database) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit: nothing
	if err := do(sqlDatabase{tx}); err != nil {
		return err
	}
	return tx.Commit()
}
