// Package command is what the outbox command does.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/screen"
	"github.com/watermill-outbox/watermill-outbox/internal/nearest"
)

// Program is one call of the command, with all that it gets from outside.
type Program struct {
	Args, Environ  []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Asks says that somebody is there to be asked, Live that Stderr is a terminal.
	Asks, Live bool
	// Brokers opens the brokers.
	Brokers *broker.Mux
}

// app is the program while it runs.
type app struct {
	Program
	screen  *screen.Screen // standard error
	flags   config.Layer   // settings that were given as flags
	file    string         // --config
	only    string         // --outbox
	started bool           // flags and arguments are right
	logs    *slog.Logger   // nil: errors are told as text
}

// Run runs the command until it is done, or ctx is, and gives the exit code.
func (p Program) Run(ctx context.Context) int {
	a := &app{Program: p, screen: screen.New(p.Stderr, p.Live), flags: config.Layer{}}
	root := a.root()
	root.SetArgs(p.Args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	err := root.ExecuteContext(ctx)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			a.note("outbox: interrupted")
		}
		a.complain(err)
	}
	return exitCode(err, a.started)
}

// complain writes an error, a line for each of several.
func (a *app) complain(err error) {
	if a.logs != nil {
		a.logs.Error("The command failed", "err", err)
		return
	}
	var mistakes config.MistakesError
	if errors.As(err, &mistakes) { // their lines begin with where they are
		a.note("%s", mistakes)
		return
	}
	for line := range strings.Lines(err.Error()) {
		a.note("outbox: %s", strings.TrimPrefix(strings.TrimSpace(line), "outbox: "))
	}
	if errors.Is(err, outbox.ErrSchemaVersion) {
		a.note(`outbox: here that is "outbox migrate up", or the SQL of "outbox migrate print"`)
	}
}

// note writes a line for people, to standard error.
func (a *app) note(format string, args ...any) {
	_, _ = fmt.Fprintf(a.screen, format+"\n", args...) // there is nowhere to tell that it failed
}

// warn is note where logs are for people, and a line of the log where they are for machines.
func (a *app) warn(process config.Process, text string) {
	if process.LogFormat == "json" {
		a.logger(process).Warn(text)
		return
	}
	a.note("outbox: %s", text)
}

// print writes to standard output.
func (a *app) print(text string) error {
	_, err := io.WriteString(a.Stdout, text)
	return err
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "outbox",
		Short: "Operates a transactional outbox on PostgreSQL",
		Long: `Operates a transactional outbox on PostgreSQL: makes its tables, forwards its messages to a broker, and looks after
those that could not be forwarded.

Settings come from a file (--config), from flags, which are stronger, and from the environment, which is strongest: --batch-size
is batch_size in the file, and OUTBOX_BATCH_SIZE. "outbox config example" prints a file with all of them.

` + exitHelp,
		Example: `  outbox migrate up --database postgres://owner@localhost/shop
  outbox forward --database postgres://forwarder@localhost/shop --broker kafka://localhost:9092
  outbox status --config outbox.yaml`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	root.PersistentFlags().StringVarP(&a.file, "config", "c", "", "`file` with settings; that of "+config.FileVariable+" if not given")
	group(root, a.migrate(), a.grants(), a.forward(), a.status(), a.dead(), a.publish(), a.consume(), a.config(), version())
	root.SetFlagErrorFunc(hintAtFlag)
	a.noteStart(root)
	return root
}

// hintAtFlag adds the flag that was perhaps meant.
func hintAtFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if name := nearest.Name(unknown.GetSpecifiedName(), known); name != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, name)
	}
	return err
}

// noteStart lets each command note that it has begun: what cobra refuses before that is a mistake in the command line.
func (a *app) noteStart(c *cobra.Command) {
	do := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		a.started = true
		return do(c, args)
	}
	for _, sub := range c.Commands() {
		a.noteStart(sub)
	}
}

// group is a command that only has others.
func group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.AddCommand(commands...)
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var known []string
		for _, sub := range c.Commands() {
			known = append(known, sub.Name())
		}
		return usage(fmt.Sprintf("unknown command %q for %q%s", args[0], c.CommandPath(), nearest.Hint(args[0], known)))
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}
