// Package relay holds the contenders: each writes messages into its own tables within a transaction, and forwards them
// to a broker.
package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Relay is one way of getting messages from a transaction to a broker.
type Relay interface {
	// Name as it stands in the results.
	Name() string
	// Create makes the tables, empty, in the relay's place.
	Create(ctx context.Context) error
	// Publish writes messages as part of a transaction.
	Publish(tx pgx.Tx, topic string, messages ...*message.Message) error
	// Run forwards until ctx is done.
	Run(ctx context.Context, broker message.Publisher) error
	// Pending counts messages that are not settled yet.
	Pending(ctx context.Context) (int64, error)
	// Namespace is the PostgreSQL schema that holds its tables.
	Namespace() string
	// Table is the qualified, quoted name of the table that Publish writes to.
	Table() string
	// Drop removes everything that Create and Run made.
	Drop(ctx context.Context) error
}

// Place is a PostgreSQL schema of a relay's own, and the pool to reach it by.
type Place struct {
	pool *pgxpool.Pool
	name string
}

var (
	places atomic.Int64
	runID  = strings.ToLower(rand.Text()[:8]) // keeps two benchmarks on one database apart
)

// Fresh is a place that does not exist yet.
func Fresh(pool *pgxpool.Pool) Place {
	return At(pool, fmt.Sprintf("outbox_bench_%s_%d", runID, places.Add(1)))
}

// At is a place where another process has created the tables.
func At(pool *pgxpool.Pool, name string) Place { return Place{pool: pool, name: name} }

// Namespace is the PostgreSQL schema's name.
func (p Place) Namespace() string { return p.name }

func (p Place) create(ctx context.Context, statements ...string) error {
	for _, statement := range append([]string{"CREATE SCHEMA " + p.quoted()}, statements...) {
		if _, err := p.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("create tables: %w", err)
		}
	}
	return nil
}

// Drop removes the place with all that is in it.
func (p Place) Drop(ctx context.Context) error {
	if _, err := p.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+p.quoted()+" CASCADE"); err != nil {
		return fmt.Errorf("drop tables: %w", err)
	}
	return nil
}

func (p Place) quoted() string { return pgx.Identifier{p.name}.Sanitize() }

func (p Place) table(name string) string { return pgx.Identifier{p.name, name}.Sanitize() }

func (p Place) count(ctx context.Context, query string) (int64, error) {
	var count int64
	if err := p.pool.QueryRow(ctx, query).Scan(&count); err != nil {
		return 0, fmt.Errorf("count pending: %w", err)
	}
	return count, nil
}

// stopped is nil for an error that only says that ctx is done.
func stopped(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}
