package outbox_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestWhatIsLeftOutIsNamed(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, pool *pgxpool.Pool) error{
		"Migrate": func(ctx context.Context, pool *pgxpool.Pool) error { return outbox.Migrate(ctx, pool, outbox.Schema{}) },
		"MigrateDown": func(ctx context.Context, pool *pgxpool.Pool) error {
			return outbox.MigrateDown(ctx, pool, outbox.Schema{})
		},
		"CheckSchema": func(ctx context.Context, pool *pgxpool.Pool) error {
			return outbox.CheckSchema(ctx, pool, outbox.Schema{})
		},
		"ReadStats": func(ctx context.Context, pool *pgxpool.Pool) error {
			_, err := outbox.ReadStats(ctx, pool, outbox.Schema{})
			return err
		},
	} {
		require.EqualError(t, call(t.Context(), nil), "outbox: pool: it is nil", name)
		require.ErrorContains(t, call(nil, &pgxpool.Pool{}), "ctx: it is nil", name)
	}
	require.EqualError(t, outbox.MigrateSQL(t.Context(), nil, outbox.Schema{}), "outbox: db: it is nil")
	require.ErrorContains(t, outbox.MigrateSQL(nil, &sql.DB{}, outbox.Schema{}), "ctx: it is nil") //nolint:staticcheck // that is the test
}
