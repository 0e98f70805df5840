package command

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
)

// applicationName is what PostgreSQL shows, unless the address says something else.
const applicationName = "outbox"

// open makes a pool of that size. It does not wait for the database.
func open(ctx context.Context, o config.Outbox, connections int32) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(o.Database)
	if err != nil { // config has read it before; pgx's text may show a part of a password
		return nil, fmt.Errorf("database of %s: it can't be read", o.Name)
	}
	c.MaxConns = connections
	c.MinConns, c.MinIdleConns = min(c.MinConns, connections), min(c.MinIdleConns, connections)
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = applicationName
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("database of %s: %w", o.Name, err)
	}
	return pool, nil
}
