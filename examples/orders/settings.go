package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// settings are what differs from one place to another.
type settings struct {
	databaseURL string
	brokerURL   string // kafka://…, amqp://…, nats://…: the program is the same
	addr        string // of the HTTP service
	logger      *slog.Logger
}

// check says what a role misses that runs by itself.
func (s settings) check(role string) error {
	if s.databaseURL == "" {
		return fmt.Errorf("%s needs DATABASE_URL", role)
	}
	if (role == "forward" || role == "email") && (s.brokerURL == "" || strings.HasPrefix(s.brokerURL, "gochannel:")) {
		return fmt.Errorf("%s needs BROKER_URL, of a broker that several processes can reach, as kafka://localhost:9092", role)
	}
	return nil
}

// openPool opens the database for a role, whose name its connections bear.
func (s settings) openPool(ctx context.Context, role string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(s.databaseURL)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	config.MaxConns = 10 // a forwarder needs a connection a worker and one more
	config.ConnConfig.RuntimeParams["application_name"] = "orders " + role
	return pgxpool.NewWithConfig(ctx, config)
}

// openDB is openPool for database/sql.
func (s settings) openDB(ctx context.Context, role string) (db *sql.DB, closeDB func() error, err error) {
	pool, err := s.openPool(ctx, role)
	if err != nil {
		return nil, nil, err
	}
	db = stdlib.OpenDBFromPool(pool)
	return db, func() error { defer pool.Close(); return db.Close() }, nil
}

const tables = `
	CREATE SCHEMA IF NOT EXISTS shop;
	CREATE TABLE IF NOT EXISTS shop.orders (
		id       text        PRIMARY KEY,
		customer text        NOT NULL,
		cents    bigint      NOT NULL,
		at       timestamptz NOT NULL DEFAULT now()
	);
	CREATE TABLE IF NOT EXISTS shop.emails (
		order_id text        NOT NULL,
		customer text        NOT NULL,
		sent_at  timestamptz
	);`

// migrate makes the tables, once at each deployment. Only this role needs the right to.
func migrate(ctx context.Context, s settings) error {
	pool, err := s.openPool(ctx, "migrate")
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, tables)
	return errors.Join(err, outbox.Migrate(ctx, pool, outbox.Schema{}))
}
