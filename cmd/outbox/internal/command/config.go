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
	asJSON := c.Flags().Bool("json", false, "print what is wrong as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := a.load(c.Context(), config.Input{Database: true, Broker: true})
		var problems []problem
		if err == nil && *connect {
			for _, o := range settings.Outboxes {
				problems = append(problems, a.connect(c.Context(), o)...)
			}
		}
		if *asJSON {
			if err := a.printMistakes(err, problems); err != nil {
				return err
			}
		}
		for _, p := range problems {
			err = errors.Join(err, p)
		}
		if err != nil || *asJSON {
			return err
		}
		return a.print("The settings are right: " + screen.Count(len(settings.Outboxes), "outbox") + ".\n")
	}
	return c
}

// problem is what keeps an outbox from being forwarded though its settings are right.
type problem struct {
	outbox, key string // key is database or broker
	err         error
}

func (p problem) Error() string { return fmt.Sprintf("%s: %s: %v", p.outbox, p.key, p.err) }

func (p problem) Unwrap() error { return p.err }

// mistakeJSON is one of the mistakes or problems.
type mistakeJSON struct {
	Outbox string `json:"outbox,omitempty"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Flag   string `json:"flag_or_variable,omitempty"`
	Key    string `json:"key,omitempty"`
	Text   string `json:"text"`
}

func (a *app) printMistakes(err error, problems []problem) error {
	list := []mistakeJSON{}
	var mistakes config.MistakesError
	if errors.As(err, &mistakes) {
		for _, m := range mistakes {
			list = append(list, mistakeJSON{"", m.Origin.File, m.Origin.Line, m.Origin.Column, m.Origin.Name, m.Key, m.Text})
		}
	}
	for _, p := range problems {
		list = append(list, mistakeJSON{Outbox: p.outbox, Key: p.key, Text: p.err.Error()})
	}
	return a.printJSON(list)
}

// connect tells all that keeps an outbox from being forwarded.
func (a *app) connect(ctx context.Context, o config.Outbox) (problems []problem) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	pool, err := open(ctx, o, 1)
	if err == nil {
		err = outbox.CheckSchema(ctx, pool, o.Forwarder.Schema)
		pool.Close()
	}
	if err != nil {
		problems = append(problems, problem{o.Name, "database", err})
	}
	opened, err := a.Brokers.Open(ctx, o.Broker, broker.Options{})
	if err == nil {
		err = errors.Join(opened.Ping(ctx), opened.Close())
	}
	if err != nil {
		problems = append(problems, problem{o.Name, "broker", err})
	}
	return problems
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
