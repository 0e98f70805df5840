// Pgx is the library on pgx alone, without database/sql: a bank moves money between accounts, and another service keeps
// their statements, complete and in the order of each account's history.
//
//	go run ./examples/pgx
//
// Read transfer.go first (how messages are written), then statement.go (how they take effect once), and this file for how
// the parts are started and stopped.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/all"
	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "pgx:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stdout io.Writer) (err error) {
	ctx, cancel := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer cancel()
	server, err := pgtest.Start(ctx) // in your program: pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	pool, err := openDatabase(ctx, server.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	b, err := all.Open(ctx, cmp.Or(os.Getenv("BROKER_URL"), "gochannel://"), broker.Options{Group: "statements"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()

	bank := newBank(pool)
	if err := bank.play(ctx, b); err != nil {
		return err
	}
	return bank.prove(context.WithoutCancel(ctx), stdout)
}

// openDatabase makes the tables, which your program does at its deployment.
func openDatabase(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 20 // five for the forwarder, the others for tellers and statements
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

// play runs all parts, each of which could be a process of its own, until every entry has reached its statement.
func (b *bank) play(ctx context.Context, broker broker.Broker) error {
	forwarder, err := outbox.NewForwarder(b.pool, twice{broker.Publisher()}, outbox.ForwarderConfig{Classify: broker.Classify}, nil)
	if err != nil {
		return err
	}
	router, err := newRouter(b, broker)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, 3*time.Minute) // far more than it takes
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return router.Run(ctx) })
	group.Go(func() error { return forwarder.Run(ctx) }) // until ctx is done: then what is in flight ends, and is settled
	group.Go(func() error {
		defer stop()
		if err := b.trade(ctx); err != nil {
			return err
		}
		return b.awaitStatements(ctx)
	})
	return group.Wait()
}
