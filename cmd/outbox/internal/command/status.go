package command

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
)

// statusJSON is what is in an outbox.
type statusJSON struct {
	Name            string  `json:"name"`
	Table           string  `json:"table"`
	Ready           int64   `json:"ready"`
	Delayed         int64   `json:"delayed"`
	Retrying        int64   `json:"retrying"`
	Parked          int64   `json:"parked"`
	Dead            int64   `json:"dead"`
	QuarantinedKeys int64   `json:"quarantined_keys"`
	OldestReadyAge  float64 `json:"oldest_ready_age_seconds"`
}

// limits are what status allows; below 0 is anything.
type limits struct {
	dead int64
	age  time.Duration
}

func (a *app) status() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "Count what is in the outbox", Args: cobra.NoArgs,
		Long: `Counts the messages of each outbox by state. It reads the whole outbox and all dead letters, so it is not for a tight loop.
The database role needs what "outbox grants" gives an operator or a forwarder.

With --max-dead or --max-age it exits with 4 when there is more: for a check that alerts.`,
		Example: `  outbox status --config outbox.yaml
  outbox status --database postgres://operator@localhost/shop --json
  outbox status --config outbox.yaml --max-dead 0 --max-age 5m || echo "somebody should look"`,
	}
	a.settings(c, named("database", "schema", "table"))
	a.selects(c)
	asJSON := c.Flags().Bool("json", false, "print JSON")
	watch := c.Flags().Duration("watch", 0, "count again, at this interval, until interrupted")
	allowed := limits{}
	c.Flags().Int64Var(&allowed.dead, "max-dead", -1, "exit with 4 if an outbox has more dead letters")
	c.Flags().DurationVar(&allowed.age, "max-age", -1, "exit with 4 if a message has waited longer")
	for _, limit := range []string{"max-dead", "max-age"} {
		c.Flags().Lookup(limit).DefValue = "no limit"
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *watch < 0 {
			return usage(fmt.Sprintf("--watch: %v must be positive", *watch))
		}
		settings, err := a.load(c.Context(), config.Input{Database: true})
		if err != nil {
			return err
		}
		for {
			err := a.showStatus(c.Context(), settings, *asJSON, allowed)
			if *watch > 0 && c.Context().Err() != nil {
				return nil //nolint:nilerr // interrupted while it counted
			}
			if err != nil || *watch == 0 {
				return err
			}
			select {
			case <-c.Context().Done():
				return nil
			case <-time.After(*watch):
			}
		}
	}
	return c
}

func (a *app) showStatus(ctx context.Context, settings *config.Config, asJSON bool, allowed limits) error {
	list := []statusJSON{}
	t := newTable("outbox", ">ready", ">delayed", ">retrying", ">parked", ">dead", ">quarantined keys", ">oldest ready")
	var verdict error
	for _, o := range settings.Outboxes {
		stats, err := readStats(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}
		list = append(list, statusJSON{
			Name: o.Name, Table: o.Forwarder.Schema.String(), Ready: stats.Ready, Delayed: stats.Delayed, Retrying: stats.Retrying,
			Parked: stats.Parked, Dead: stats.Dead, QuarantinedKeys: stats.QuarantinedKeys, OldestReadyAge: stats.OldestReadyAge.Seconds(),
		})
		t.AppendRow(table.Row{
			o.Name, stats.Ready, stats.Delayed, stats.Retrying, stats.Parked, stats.Dead, stats.QuarantinedKeys, age(stats.OldestReadyAge),
		})
		if verdict == nil {
			verdict = allowed.check(o.Name, stats)
		}
	}
	var err error
	if asJSON {
		err = a.printJSON(list)
	} else {
		err = a.print(t.Render() + "\n")
	}
	if err != nil {
		return err
	}
	return verdict
}

func readStats(ctx context.Context, o config.Outbox) (outbox.Stats, error) {
	pool, err := open(ctx, o, 1)
	if err != nil {
		return outbox.Stats{}, err
	}
	defer pool.Close()
	return outbox.ReadStats(ctx, pool, o.Forwarder.Schema)
}

func (l limits) check(name string, stats outbox.Stats) error {
	switch {
	case l.dead >= 0 && stats.Dead > l.dead:
		return fmt.Errorf("%s is %w: %d dead letters, --max-dead allows %d", name, errUnhealthy, stats.Dead, l.dead)
	case l.age >= 0 && stats.OldestReadyAge > l.age:
		return fmt.Errorf("%s is %w: a message has waited %s, --max-age allows %s", name, errUnhealthy, age(stats.OldestReadyAge), l.age)
	}
	return nil
}
