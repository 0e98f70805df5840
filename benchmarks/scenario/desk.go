package scenario

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq" // a driver under test

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// desk is where the handler takes effect.
type desk struct {
	env            *Env
	insert, update string
	orders         string
	drivers        []deskDriver
	dbs            []*sql.DB
}

type deskDriver struct {
	name  string
	inbox func(outbox.InboxConfig) (*outbox.Inbox, error)
	bare  message.HandlerFunc
}

func (e *Env) openDesk(ctx context.Context, namespace string) (*desk, error) {
	orders, customers := pgx.Identifier{namespace, "orders"}.Sanitize(), pgx.Identifier{namespace, "customers"}.Sanitize()
	d := &desk{
		env: e, orders: orders,
		insert: `INSERT INTO ` + orders + ` (uuid, body) VALUES ($1, $2)`,
		update: `UPDATE ` + customers + ` SET orders = orders + 1 WHERE id = abs(hashtext($1)) % 1000`,
	}
	_, err := e.Pool.Exec(ctx, `CREATE TABLE `+orders+` (uuid text NOT NULL, body bytea); CREATE TABLE `+customers+` (id int PRIMARY KEY, orders int NOT NULL);
		INSERT INTO `+customers+` SELECT g, 0 FROM generate_series(0, 999) g`)
	if err != nil {
		return nil, fmt.Errorf("business tables: %w", err)
	}
	pq, err := sql.Open("postgres", e.URL)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	pq.SetMaxIdleConns(poolSize)
	db := stdlib.OpenDBFromPool(e.Pool)
	d.dbs = []*sql.DB{pq, db}
	onPool := func(c outbox.InboxConfig) (*outbox.Inbox, error) { return outbox.NewPgxInbox(e.Pool, c, nil) }
	d.drivers = []deskDriver{
		{"pgx", onPool, d.inPgxTx},
		d.sqlDriver("database/sql, pgx/stdlib", db),
		d.sqlDriver("database/sql, lib/pq", pq),
	}
	return d, nil
}

func (d *desk) sqlDriver(name string, db *sql.DB) deskDriver {
	return deskDriver{
		name:  name,
		inbox: func(c outbox.InboxConfig) (*outbox.Inbox, error) { return outbox.NewInbox(db, c, nil) },
		bare:  func(msg *message.Message) ([]*message.Message, error) { return d.inSQLTx(db, msg) },
	}
}

func (d *desk) close() error {
	var errs []error
	for _, db := range d.dbs {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

// handle is the handler, in the transaction that it finds in the context.
func (d *desk) handle(msg *message.Message) ([]*message.Message, error) {
	ctx := msg.Context()
	exec := func(string, ...any) error { return errors.New("no transaction") }
	if tx, ok := outbox.PgxTxFromContext(ctx); ok {
		exec = func(query string, args ...any) error { _, err := tx.Exec(ctx, query, args...); return err }
	} else if tx, ok := outbox.TxFromContext(ctx); ok {
		exec = func(query string, args ...any) error { _, err := tx.ExecContext(ctx, query, args...); return err }
	}
	return nil, errors.Join(exec(d.insert, msg.UUID, []byte(msg.Payload)), exec(d.update, msg.UUID))
}

// inPgxTx is what one writes without the inbox.
func (d *desk) inPgxTx(msg *message.Message) (out []*message.Message, err error) {
	own := msg.Context()
	defer msg.SetContext(own)
	return nil, pgx.BeginFunc(own, d.env.Pool, func(tx pgx.Tx) error {
		msg.SetContext(outbox.ContextWithPgxTx(own, tx))
		_, err := d.handle(msg)
		return err
	})
}

func (d *desk) inSQLTx(db *sql.DB, msg *message.Message) ([]*message.Message, error) {
	own := msg.Context()
	defer msg.SetContext(own)
	tx, err := db.BeginTx(own, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit: nothing
	msg.SetContext(outbox.ContextWithTx(own, tx))
	if _, err := d.handle(msg); err != nil {
		return nil, err
	}
	return nil, tx.Commit()
}

// check counts: every message took effect once, on both sides, and the inbox has its own.
func (d *desk) check(ctx context.Context, schema outbox.Schema, all []*consumer) error {
	var handled, known int
	for _, c := range all {
		handled += c.handled
		if c.inbox {
			known += c.handled
		}
	}
	var effects, distinct, recorded int
	inbox := pgx.Identifier{schema.Name, "outbox_inbox"}.Sanitize()
	err := d.env.Pool.QueryRow(ctx, `SELECT count(*), count(DISTINCT uuid), (SELECT count(*) FROM `+inbox+`) FROM `+d.orders).Scan(&effects, &distinct, &recorded)
	if err != nil {
		return fmt.Errorf("count the effects: %w", err)
	}
	if effects != handled || distinct != handled || recorded != known {
		return fmt.Errorf("%d messages took effect %d times (%d of them), the inbox has %d of %d", handled, effects, distinct, recorded, known)
	}
	return nil
}
