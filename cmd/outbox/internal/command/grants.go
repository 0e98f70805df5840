package command

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
	"github.com/watermill-outbox/watermill-outbox/internal/nearest"
)

func (a *app) grants() *cobra.Command {
	c := &cobra.Command{
		Use: "grants", Short: "Print the GRANT statements that a database role needs", Args: cobra.NoArgs,
		Long: `Prints the GRANT statements that let a database role do one thing, and nothing else. The owner of the tables runs them, after
"migrate up". It needs no database.

  writer      publishes: "outbox publish", and services that write into the outbox
  forwarder   "outbox forward"
  operator    "outbox status" and "outbox dead"
  consumer    services with an inbox
  subscriber  services that take messages with watermill-sql`,
		Example: "  outbox grants --role forwarder --to shop_forwarder | psql postgres://owner@localhost/shop",
	}
	a.settings(c, named("schema", "table", "no_doorbell"))
	a.selects(c)
	role := c.Flags().String("role", "", "writer, forwarder, operator, consumer or subscriber")
	grantee := c.Flags().String("to", "", "`name` of the database role")
	for _, flag := range []string{"role", "to"} {
		_ = c.MarkFlagRequired(flag) // it is there
	}
	roles := []outbox.Role{outbox.RoleWriter, outbox.RoleForwarder, outbox.RoleOperator, outbox.RoleConsumer, outbox.RoleSubscriber}
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := a.load(c.Context(), config.Input{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(roles, func(r outbox.Role) bool { return r.String() == *role })
		if i < 0 {
			known := []string{}
			for _, r := range roles {
				known = append(known, r.String())
			}
			return usage(fmt.Sprintf("--role: there is no role %q%s", *role, nearest.Hint(*role, known)))
		}
		for _, o := range settings.Outboxes {
			sql, err := outbox.Grants(o.Forwarder.Schema, roles[i], *grantee)
			if err != nil {
				return usageError{err}
			}
			if err := a.print(sql); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}
