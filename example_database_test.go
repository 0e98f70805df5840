package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
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
	_, err = pool.Exec(ctx, `CREATE SCHEMA shop; CREATE TABLE shop.orders (customer text, body text);
		CREATE TABLE shop.parcels (body text);
		CREATE TABLE shop.emails (id bigint GENERATED ALWAYS AS IDENTITY, body text)`)
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

// twice is a broker that delivers everything twice.
type twice struct{ *gochannel.GoChannel }

func (b twice) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := errors.Join(b.GoChannel.Publish(topic, msg), b.GoChannel.Publish(topic, msg.Copy())); err != nil {
			return err
		}
	}
	return nil
}

// reports tells what a router has handled.
func reports(handled chan<- string) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := h(msg)
			if err == nil {
				handled <- string(msg.Payload)
			}
			return produced, err
		}
	}
}

func printEmails(ctx context.Context, db *sql.DB) {
	rows, err := db.QueryContext(ctx, `SELECT body FROM shop.emails ORDER BY id`)
	must(err)
	defer func() { must(rows.Close()) }()
	for rows.Next() {
		var body string
		must(rows.Scan(&body))
		fmt.Println("email about", body)
	}
	must(rows.Err())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
