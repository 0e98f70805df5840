package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// Migration is one step of the schema as plain SQL, for goose, Atlas, golang-migrate and the like.
//
// Each is to be run in a transaction of its own, or all in one. It records itself in the migrations table, so that
// Migrate and CheckSchema know what another tool has applied. Functions are dollar-quoted: goose wants its
// StatementBegin and StatementEnd around the whole.
type Migration struct {
	// Version numbers the steps from 1.
	Version int
	// Name is a word or two, in snake case.
	Name string
	// SQL makes the step, Down takes it back, with the data.
	SQL, Down string
	// Optional ones may be left out: the doorbell (Schema.NoDoorbell) and the topic index (Schema.TopicIndex).
	Optional bool
}

// Migrations gives all steps for a schema in their order, the optional ones too. The PostgreSQL schema itself must be
// there.
func Migrations(schema Schema) ([]Migration, error) {
	if err := schema.Validate(); err != nil {
		return nil, err
	}
	rendered := pgsql.Migrations(schema.names())
	list := make([]Migration, len(rendered))
	for i, m := range rendered {
		list[i] = Migration{Version: m.Version, Name: m.Name, SQL: m.Up, Down: m.Down, Optional: m.Optional}
	}
	return list, nil
}

// Migrate brings the tables up to this library's version. Only it needs the right to create things: CREATE on the
// PostgreSQL schema, or on the database if the schema is missing too. When everything is there it only reads.
//
// Any number of processes may migrate at once; one does it and the others wait. It is one transaction: all or nothing.
// Optional steps are taken as the Schema asks; one that was taken before is left. Tables of a newer library are
// ErrSchemaVersion.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema Schema) error {
	if err := given(ctx, pool); err != nil {
		return err
	}
	return migrate(ctx, newPgxTransactor(pool), schema)
}

// MigrateSQL is Migrate for database/sql, with lib/pq or pgx/stdlib.
func MigrateSQL(ctx context.Context, db *sql.DB, schema Schema) error {
	switch {
	case ctx == nil:
		return errNilContext
	case db == nil:
		return errNilDB
	}
	return migrate(ctx, newSQLTransactor(db), schema)
}

// MigrateDown drops the schema's tables with all that is in them, dead letters and pending messages included; the
// PostgreSQL schema stays. For tests and tools.
func MigrateDown(ctx context.Context, pool *pgxpool.Pool, schema Schema) error {
	if err := given(ctx, pool); err != nil {
		return err
	}
	list, err := Migrations(schema)
	if err != nil {
		return err
	}
	slices.Reverse(list)
	return changeSchema(ctx, newPgxTransactor(pool), schema, func(tx database, state installed) error {
		for _, m := range list {
			if !slices.Contains(state.versions, m.Version) {
				continue
			}
			if err := tx.exec(ctx, m.Down); err != nil {
				return fmt.Errorf("outbox: taking back migration %d (%s) of %s: %w", m.Version, m.Name, schema, err)
			}
		}
		return nil
	})
}

func migrate(ctx context.Context, db transactor, schema Schema) error {
	list, err := Migrations(schema)
	if err != nil {
		return err
	}
	state, err := readInstalled(ctx, db, schema)
	if err != nil {
		return err
	}
	if len(stepsMissing(list, schema, state)) == 0 {
		return nil
	}
	return changeSchema(ctx, db, schema, func(tx database, state installed) error {
		if !state.namespace {
			if err := tx.exec(ctx, pgsql.Render(schema.names()).CreateSchema); err != nil {
				return fmt.Errorf("outbox: creating the PostgreSQL schema of %s: %w", schema, err)
			}
		}
		for _, m := range stepsMissing(list, schema, state) {
			if err := tx.exec(ctx, m.SQL); err != nil {
				return fmt.Errorf("outbox: migration %d (%s) of %s: %w", m.Version, m.Name, schema, err)
			}
		}
		return nil
	})
}

// changeSchema calls change in a transaction that keeps other migrations out.
func changeSchema(ctx context.Context, db transactor, schema Schema, change func(tx database, state installed) error) error {
	statements := pgsql.Render(schema.names())
	return db.transaction(ctx, func(tx database) error {
		for _, statement := range []string{statements.ReadWrite, statements.MigrateLock} {
			if err := tx.exec(ctx, statement); err != nil {
				return fmt.Errorf("outbox: migrating %s: %w", schema, err)
			}
		}
		state, err := readInstalled(ctx, tx, schema)
		if err != nil {
			return err
		}
		return change(tx, state)
	})
}

// stepsMissing are the steps that are wanted and not there.
func stepsMissing(list []Migration, schema Schema, state installed) []Migration {
	var steps []Migration
	for _, m := range list {
		wanted := !m.Optional || m.Version == pgsql.DoorbellVersion && !schema.NoDoorbell ||
			m.Version == pgsql.TopicIndexVersion && schema.TopicIndex
		if wanted && !slices.Contains(state.versions, m.Version) {
			steps = append(steps, m)
		}
	}
	return steps
}

// installed is what is there of a schema.
type installed struct {
	namespace bool // the PostgreSQL schema
	versions  []int
}

// readInstalled only reads. Versions that this library doesn't know are ErrSchemaVersion.
func readInstalled(ctx context.Context, db database, schema Schema) (installed, error) {
	statements := pgsql.Render(schema.names())
	var state installed
	var table bool
	err := db.query(ctx, statements.Installed, nil, func(scan func(...any) error) error { return scan(&state.namespace, &table) })
	if err == nil && table {
		state.versions, err = readVersions(ctx, db, statements)
	}
	if err != nil {
		return installed{}, fmt.Errorf("outbox: reading the versions of %s: %w", schema, err)
	}
	if newer := pgsql.UnknownVersions(state.versions); len(newer) > 0 {
		return installed{}, fmt.Errorf("%w: %s has migrations %v, which this library does not know; use a newer one", ErrSchemaVersion, schema, newer)
	}
	return state, nil
}

func readVersions(ctx context.Context, db database, statements pgsql.Statements) ([]int, error) {
	var versions []int
	err := db.query(ctx, statements.Versions, nil, func(scan func(...any) error) error {
		var version int
		err := scan(&version)
		versions = append(versions, version)
		return err
	})
	return versions, err
}
