package command

import (
	"context"

	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
)

// tableSettings say where an outbox is.
var tableSettings = named("database", "schema", "table", "no_doorbell", "topic_index")

func (a *app) migrate() *cobra.Command {
	return group(&cobra.Command{Use: "migrate", Short: "Make the tables, or show how"}, a.migrateUp())
}

func (a *app) migrateUp() *cobra.Command {
	c := &cobra.Command{
		Use: "up", Short: "Bring the tables up to this version", Args: cobra.NoArgs,
		Long: `Makes the tables, or brings them up to this version. It may be run by several at once, and again: then it only reads.
It is the only command that needs the right to create things.`,
		Example: "  outbox migrate up --database postgres://owner@localhost/shop --schema shop",
	}
	a.settings(c, tableSettings)
	a.selects(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := a.load(c.Context(), config.Input{Database: true})
		if err != nil {
			return err
		}
		for _, o := range settings.Outboxes {
			if err := a.migrateOne(c.Context(), o); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

func (a *app) migrateOne(ctx context.Context, o config.Outbox) error {
	pool, err := open(ctx, o, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := outbox.Migrate(ctx, pool, o.Forwarder.Schema); err != nil {
		return err
	}
	return a.say("%s: the tables are up to date.", o.Name)
}
