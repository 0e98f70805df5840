package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
)

// database is a PostgreSQL, and a schema in it that is ours alone.
type database struct {
	server *pgtest.Server // your program has a URL instead
	schema string
	pool   *pgxpool.Pool // for the business, and for looking at the outbox
}

// businessTables are the shop's, and the consumer's bookings and totals. A customer counts their orders, so that a booking
// tells whether one is missing or came too early. Nothing keeps an order from being booked twice, but the inbox.
const businessTables = `
	CREATE TABLE customers (id integer PRIMARY KEY, orders integer NOT NULL DEFAULT 0);
	CREATE TABLE orders (
		id       text    PRIMARY KEY,
		customer integer NOT NULL REFERENCES customers,
		number   integer NOT NULL,
		cents    integer NOT NULL,
		UNIQUE (customer, number)
	);
	CREATE TABLE bookings (
		seq      bigint      GENERATED ALWAYS AS IDENTITY,
		order_id text        NOT NULL,
		customer integer     NOT NULL,
		number   integer     NOT NULL,
		at       timestamptz NOT NULL DEFAULT clock_timestamp()
	);
	CREATE TABLE totals (customer integer PRIMARY KEY, orders bigint NOT NULL DEFAULT 0, cents bigint NOT NULL DEFAULT 0);`

// openDatabase starts or finds a PostgreSQL, and makes the tables of the outbox and of the shop.
func openDatabase(ctx context.Context) (*database, error) {
	server, err := pgtest.Start(ctx)
	if err != nil {
		return nil, err
	}
	d := &database{server: server, schema: "quickstart_" + rand.Text()[:8]}
	if err := d.prepare(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *database) prepare(ctx context.Context) (err error) {
	if d.pool, err = d.connect(ctx, "shop", clerks+2); err != nil {
		return err
	}
	if err := outbox.Migrate(ctx, d.pool, d.outbox()); err != nil {
		return err
	}
	if _, err := d.pool.Exec(ctx, businessTables); err != nil {
		return fmt.Errorf("making the shop's tables: %w", err)
	}
	for _, table := range []string{"customers", "totals"} {
		if _, err := d.pool.Exec(ctx, `INSERT INTO `+table+` SELECT generate_series(1, $1::int)`, customers); err != nil {
			return fmt.Errorf("filling the table %s: %w", table, err)
		}
	}
	return nil
}

// outbox names the outbox. In your program the zero value, public.outbox, will do.
func (d *database) outbox() outbox.Schema { return outbox.Schema{Name: d.schema} }

// connect gives a pool whose connections bear a name, so that they can be found and cut.
func (d *database) connect(ctx context.Context, name string, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(d.server.URL)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["application_name"] = d.applicationName(name)
	config.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{d.schema}.Sanitize() // for the shop; the outbox needs none
	return pgxpool.NewWithConfig(ctx, config)
}

func (d *database) applicationName(name string) string { return d.schema + " " + name }

// cut ends the connections of that name, as an operator or a failing network would, and says how many there were.
func (d *database) cut(ctx context.Context, name string) (ended int, err error) {
	err = d.pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE pg_terminate_backend(pid))
		FROM pg_stat_activity WHERE application_name = $1`, d.applicationName(name)).Scan(&ended)
	if err != nil {
		return 0, fmt.Errorf("cutting the connections of %s: %w", name, err)
	}
	return ended, nil
}

// close drops what was made, also after an interrupt.
func (d *database) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var err error
	if d.pool != nil {
		_, err = d.pool.Exec(ctx, `DROP SCHEMA IF EXISTS `+pgx.Identifier{d.schema}.Sanitize()+` CASCADE`)
		d.pool.Close()
	}
	return errors.Join(err, d.server.Stop())
}
