// Cqrs is Watermill's CQRS component on the outbox: its buses publish in whatever transaction the context carries, its
// processors handle each command and event once.
//
//	go run ./examples/cqrs
//
// Read buses.go and processors.go first (the wiring), then hotel.go (the handlers) and desk.go (where it begins), and this
// file for how the parts are started and stopped.
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
		_, _ = fmt.Fprintln(os.Stderr, "cqrs:", err)
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
	buses, err := newBuses()
	if err != nil {
		return err
	}
	desk, faults := newDesk(db, buses.commands), &faults{}
	if err := play(ctx, pool, db, desk, &hotel{buses: buses, faults: faults}); err != nil {
		return err
	}
	return desk.prove(context.WithoutCancel(ctx), stdout, faults)
}

// openDatabase makes the tables, which your program does at its deployment.
func openDatabase(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 20 // five for the forwarder, the others for desk and handlers
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

// play runs all parts, each of which could be a process of its own, until every guest has what the hotel promised.
func play(ctx context.Context, pool *pgxpool.Pool, db *sql.DB, desk *desk, hotel *hotel) error {
	ctx, stop := context.WithTimeout(ctx, 3*time.Minute) // far more than it takes
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx, db, hotel) })
	group.Go(func() error { return forward(ctx, pool) })
	group.Go(func() error {
		defer stop()
		if err := desk.welcome(ctx); err != nil {
			return err
		}
		return desk.await(ctx)
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

func openBroker(ctx context.Context, group string) (broker.Broker, error) {
	return all.Open(ctx, cmp.Or(os.Getenv("BROKER_URL"), "gochannel://"), broker.Options{Group: group})
}
