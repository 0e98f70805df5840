// Router is a chain of services: each consumes a message, takes effect in its database and produces the next message, all
// three in one transaction.
//
//	go run ./examples/router
//
// Read service.go first (the middlewares and their order), then warehouse.go and billing.go (the links of the chain), and
// this file for how the parts are started and stopped.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/all"
	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "router:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stdout io.Writer) (err error) {
	ctx, cancel := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer cancel()
	server, err := pgtest.Start(ctx) // in your program: os.Getenv("DATABASE_URL")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	pool, err := openDatabase(ctx, server.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool) // the same connections
	defer func() { err = errors.Join(err, db.Close()) }()

	shop, faults := newShop(db), &faults{}
	if err := play(ctx, pool, db, shop, faults); err != nil {
		return err
	}
	return shop.prove(context.WithoutCancel(ctx), stdout, faults)
}

// openDatabase makes the tables, which your program does at its deployment. For brevity the services share a database. If
// each has its own, each has its own outbox and forwarder too.
func openDatabase(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 20 // five for the forwarder, the others for the services
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, tables)
	if err := errors.Join(err, outbox.Migrate(ctx, pool, outbox.Schema{})); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// play runs all parts, each of which could be a process of its own, until the shop's orders are through the chain.
func play(ctx context.Context, pool *pgxpool.Pool, db *sql.DB, shop *shop, faults *faults) error {
	ctx, stop := context.WithTimeout(ctx, 3*time.Minute) // far more than it takes
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx, "warehouse", db, faults, addWarehouse) })
	group.Go(func() error { return serve(ctx, "billing", db, faults, addBilling) })
	group.Go(func() error { return serve(ctx, "desk", db, faults, addDesk) })
	group.Go(func() error { return forward(ctx, pool) })
	group.Go(func() error {
		defer stop()
		if err := shop.trade(ctx); err != nil {
			return err
		}
		return shop.await(ctx)
	})
	return group.Wait()
}

// forward takes the outbox to the broker until ctx is done: then what is in flight ends, and is settled.
func forward(ctx context.Context, pool *pgxpool.Pool) (err error) {
	b, err := openBroker(ctx, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	forwarder, err := outbox.NewForwarder(pool, twice{b.Publisher()}, outbox.ForwarderConfig{Classify: b.Classify}, nil)
	if err != nil {
		return err
	}
	return forwarder.Run(ctx)
}

// openBroker opens it for a service. The group is the service's name: each service gets every message, its copies share them.
func openBroker(ctx context.Context, group string) (broker.Broker, error) {
	return all.Open(ctx, cmp.Or(os.Getenv("BROKER_URL"), "gochannel://"), broker.Options{Group: group})
}
