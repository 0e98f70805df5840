package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/screen"
)

const connectTimeout = 10 * time.Second

func (a *app) config() *cobra.Command {
	return group(&cobra.Command{
		Use: "config", Short: "Check the settings, or show them",
		Example: "  outbox config example > outbox.yaml\n  outbox config check --config outbox.yaml",
	}, a.configCheck(), a.configPrint(), a.configExample())
}

func everything(config.Field) bool { return true }

func (a *app) configCheck() *cobra.Command {
	c := &cobra.Command{
		Use: "check", Short: "Tell everything that is wrong with the settings", Args: cobra.NoArgs,
		Long: `Reads the settings as forward does, and tells everything that is wrong with them, each with file, line and column: then the
exit code is 2. With --connect it also asks whether database and broker can be reached, and whether the tables fit.`,
		Example: "  outbox config check --config outbox.yaml\n  outbox config check --config outbox.yaml --connect",
	}
	a.settings(c, everything)
	connect := c.Flags().Bool("connect", false, "connect to database and broker, and look at the tables")
	asJSON := c.Flags().Bool("json", false, "print the mistakes as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := a.load(c.Context(), config.Input{Database: true, Broker: true})
		if *asJSON {
			if err := a.printMistakes(err); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if *connect {
			for _, o := range settings.Outboxes {
				err = errors.Join(err, a.connect(c.Context(), o))
			}
		}
		if err != nil || *asJSON {
			return err
		}
		return a.print("The settings are right: " + screen.Count(len(settings.Outboxes), "outbox") + ".\n")
	}
	return c
}

// mistakeJSON is one of the mistakes.
type mistakeJSON struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Flag   string `json:"flag_or_variable,omitempty"`
	Key    string `json:"key,omitempty"`
	Text   string `json:"text"`
}

func (a *app) printMistakes(err error) error {
	list := []mistakeJSON{}
	var mistakes config.MistakesError
	if errors.As(err, &mistakes) {
		for _, m := range mistakes {
			list = append(list, mistakeJSON{m.Origin.File, m.Origin.Line, m.Origin.Column, m.Origin.Name, m.Key, m.Text})
		}
	}
	return a.printJSON(list)
}

// connect tells all that keeps an outbox from being forwarded.
func (a *app) connect(ctx context.Context, o config.Outbox) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var problems []error
	pool, err := open(ctx, o, 1)
	if err == nil {
		err = outbox.CheckSchema(ctx, pool, o.Forwarder.Schema)
		pool.Close()
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("%s: database: %w", o.Name, err))
	}
	opened, err := a.Brokers.Open(ctx, o.Broker, broker.Options{})
	if err == nil {
		err = errors.Join(opened.Ping(ctx), opened.Close())
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("%s: broker: %w", o.Name, err))
	}
	return errors.Join(problems...)
}

func (a *app) configPrint() *cobra.Command {
	c := &cobra.Command{
		Use: "print", Short: "Print the settings as they are, each with where it comes from", Args: cobra.NoArgs,
		Long:    "Prints the settings that file, flags and environment make together, without passwords.",
		Example: "  OUTBOX_WORKERS=8 outbox config print --config outbox.yaml",
	}
	a.settings(c, everything)
	a.selects(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := a.load(c.Context(), config.Input{})
		if err != nil {
			return err
		}
		return a.print(settings.String())
	}
	return c
}

func (a *app) configExample() *cobra.Command {
	return &cobra.Command{
		Use: "example", Short: "Print a file with every setting, explained", Args: cobra.NoArgs,
		Example: "  outbox config example > outbox.yaml",
		RunE:    func(*cobra.Command, []string) error { return a.print(config.Example()) },
	}
}
