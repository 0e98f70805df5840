package outbox

import (
	"context"
	"database/sql"
	"reflect"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLExecutor is what a Publisher needs of database/sql: *sql.Tx, and all that wraps it and has its ExecContext: sqlx,
// gorm's Statement.ConnPool, ent with the execquery feature. From bun pass tx.Tx, since bun.Tx itself rewrites the query.
// *sql.DB and *sql.Conn work too, without a transaction to be part of.
type SQLExecutor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// PgxExecutor is what a Publisher needs of pgx: pgx.Tx; without a transaction to be part of, *pgx.Conn and
// *pgxpool.Pool.
type PgxExecutor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// executor executes a statement and gives the number of rows it wrote, -1 when the driver doesn't tell.
type executor func(ctx context.Context, query string, args ...any) (int64, error)

// sqlExecutor gives nil for nil, typed or not.
func sqlExecutor(tx SQLExecutor) executor {
	if isNil(tx) {
		return nil
	}
	return func(ctx context.Context, query string, args ...any) (int64, error) {
		result, err := tx.ExecContext(ctx, query, args...)
		if err != nil || result == nil {
			return -1, err
		}
		if rows, err := result.RowsAffected(); err == nil {
			return rows, nil
		}
		return -1, nil // not every wrapper counts, and the statement has succeeded
	}
}

// pgxExecutor gives nil for nil, typed or not.
func pgxExecutor(tx PgxExecutor) executor {
	if isNil(tx) {
		return nil
	}
	return func(ctx context.Context, query string, args ...any) (int64, error) {
		tag, err := tx.Exec(ctx, query, args...)
		return tag.RowsAffected(), err
	}
}

func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return r.IsNil()
	default:
		return false
	}
}
