package sql

import (
	"context"
	_ "embed"
	"fmt"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed statements/missing.sql
	missingStatement string
	//go:embed statements/lock.sql
	lockStatement string
)

// topics makes the tables of topics that have none.
type topics struct {
	pool   *pgxpool.Pool
	tables tables
}

// createMessages makes the table that a publisher needs.
func (t *topics) createMessages(ctx context.Context, topic string) error {
	return t.create(ctx, topic, t.tables.messages(topic), t.tables.schemaAdapter(0).SchemaInitializingQueries(topic))
}

// createAll makes the tables that a subscriber needs.
func (t *topics) createAll(ctx context.Context, topic string) error {
	if err := t.createMessages(ctx, topic); err != nil {
		return err
	}
	return t.create(ctx, topic, t.tables.offsets(topic), t.tables.offsetsAdapter().SchemaInitializingQueries(topic))
}

func (t *topics) create(ctx context.Context, topic, table string, queries []wsql.Query) error {
	err := pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockStatement); err != nil {
			return err
		}
		var missing bool
		if err := tx.QueryRow(ctx, missingStatement, table).Scan(&missing); err != nil || !missing {
			return err
		}
		for _, query := range queries {
			if _, err := tx.Exec(ctx, query.Query, query.Args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sql: making the tables of topic %q: %w", topic, err)
	}
	return nil
}
