package outbox_test

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
)

// openExampleDatabase starts a PostgreSQL for an example, which has no testing.T to clean up after it.
func openExampleDatabase(ctx context.Context) (pool *pgxpool.Pool, db *sql.DB, closeAll func()) {
	server, err := pgtest.Run(ctx)
	must(err)
	config, err := pgxpool.ParseConfig(server.URL)
	must(err)
	config.MaxConns = 10 // a forwarder needs a connection a worker and one more
	pool, err = pgxpool.NewWithConfig(ctx, config)
	must(err)
	_, err = pool.Exec(ctx, `CREATE SCHEMA shop; CREATE TABLE shop.orders (customer text, body text)`)
	must(err)
	db = stdlib.OpenDBFromPool(pool)
	return pool, db, func() {
		must(db.Close())
		pool.Close()
		must(server.Stop())
	}
}

// inTransaction commits what do has done, unless it returns an error.
func inTransaction(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit: nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
