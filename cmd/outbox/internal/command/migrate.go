package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/screen"
)

// tableSettings say where an outbox is, and how it is made.
var tableSettings = named("database", "schema", "table", "no_doorbell", "topic_index")

func (a *app) migrate() *cobra.Command {
	return group(&cobra.Command{
		Use: "migrate", Short: "Make the tables, or show how",
		Example: "  outbox migrate up --database postgres://owner@localhost/shop\n  outbox migrate print > outbox.sql",
	}, a.migrateUp(), a.migrateStatus(), a.migratePrint())
}

func (a *app) migrateUp() *cobra.Command {
	c := &cobra.Command{
		Use: "up", Short: "Bring the tables up to this version", Args: cobra.NoArgs,
		Long: `Makes the tables, or brings them up to this version, each outbox's in one transaction. Several may do it at once, and again:
then it only reads. It is the only command that needs the right to create things.`,
		Example: `  outbox migrate up --database postgres://owner@localhost/shop
  outbox migrate up --config outbox.yaml --outbox orders`,
	}
	a.settings(c, tableSettings)
	a.selects(c)
	c.RunE = a.onEach(a.migrateOne)
	return c
}

// onEach does something with each outbox.
func (a *app) onEach(do func(context.Context, config.Outbox) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		settings, err := a.load(c.Context(), config.Input{Database: true})
		if err != nil {
			return err
		}
		for _, o := range settings.Outboxes {
			if err := do(c.Context(), o); err != nil {
				return fmt.Errorf("%s: %w", o.Name, err)
			}
		}
		return nil
	}
}

func (a *app) migrateOne(ctx context.Context, o config.Outbox) error {
	pool, err := open(ctx, o, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	before, err := applied(ctx, pool, o.Forwarder.Schema)
	if err != nil {
		return err
	}
	if err := outbox.Migrate(ctx, pool, o.Forwarder.Schema); err != nil {
		return err
	}
	after, err := applied(ctx, pool, o.Forwarder.Schema)
	if err != nil {
		return err
	}
	if len(after) == len(before) {
		return a.print(o.Name + ": nothing to do, there are " + screen.Count(len(after), "migration") + ".\n")
	}
	return a.print(o.Name + ": " + screen.Count(len(after)-len(before), "migration") + " applied.\n")
}
