// Gorm is the library with gorm: orders and their messages commit in one gorm transaction, and another service writes
// invoices and letters with gorm in its inbox's transaction.
//
//	go run ./examples/gorm
//
// Read shop.go first (how messages are written), then office.go (how they take effect once), and this file for how the
// parts are started and stopped.
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
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/all"
	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "gorm:", err)
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
	database, err := openDatabase(ctx, server.URL)
	if err != nil {
		return err
	}
	defer database.close()
	b, err := all.Open(ctx, cmp.Or(os.Getenv("BROKER_URL"), "gochannel://"), broker.Options{Group: "office"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()

	shop, office := newShop(database.gorm), &office{db: database.gorm}
	if err := play(ctx, database, b, shop, office); err != nil {
		return err
	}
	return prove(context.WithoutCancel(ctx), stdout, shop, office)
}

// database is one pool of connections, in the three forms that its users want.
type database struct {
	pool *pgxpool.Pool // the forwarder
	sql  *sql.DB       // the inbox
	gorm *gorm.DB      // the business
}

// openDatabase makes the tables, which your program does at its deployment.
func openDatabase(ctx context.Context, url string) (*database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 20 // five for the forwarder, the others for shop and office
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	d := &database{pool: pool, sql: stdlib.OpenDBFromPool(pool)}
	d.gorm, err = gorm.Open(postgres.New(postgres.Config{Conn: d.sql}), &gorm.Config{TranslateError: true, Logger: logger.Discard})
	if err != nil {
		d.close()
		return nil, err
	}
	err = d.gorm.WithContext(ctx).Exec(`CREATE SCHEMA IF NOT EXISTS gormshop`).Error
	err = errors.Join(err, d.gorm.WithContext(ctx).AutoMigrate(&Order{}, &Voucher{}, &Invoice{}, &Letter{}))
	if err := errors.Join(err, outbox.Migrate(ctx, pool, outbox.Schema{})); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *database) close() {
	_ = d.sql.Close()
	d.pool.Close()
}

// play runs all parts, each of which could be a process of its own, until every order has its invoice and every voucher its letter.
func play(ctx context.Context, d *database, b broker.Broker, shop *shop, office *office) error {
	forwarder, err := outbox.NewForwarder(d.pool, twice{b.Publisher()}, outbox.ForwarderConfig{Classify: b.Classify}, nil)
	if err != nil {
		return err
	}
	router, err := newRouter(d.sql, b, office)
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
		if err := shop.trade(ctx); err != nil {
			return err
		}
		return await(ctx, shop, office)
	})
	return group.Wait()
}
