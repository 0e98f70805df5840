// Command benchmarks measures this library against its rivals, all in one run on one database.
//
//	go run . [-list] [-scenario NAME] [-scale N] [-json]
//
// The database is $DATABASE_URL's, else a throw-away PostgreSQL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/scenario"
	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
)

func main() {
	err := start()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func start() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if scenario.IsChild() {
		return scenario.RunChild(ctx, os.Stdout)
	}
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

type options struct {
	list, json bool
	scenario   string
	scale      float64
	cpuProfile string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.list, "list", false, "say what each scenario measures, and end")
	flags.StringVar(&o.scenario, "scenario", "", "run this one `NAME`; all by default")
	flags.Float64Var(&o.scale, "scale", 1, "so many times the messages and the time; 1 keeps each scenario under a minute")
	flags.BoolVar(&o.json, "json", false, "one JSON object a line instead of tables")
	flags.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile to `FILE`; the label \"relay\" tells the sides apart")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.scale <= 0 {
		return o, fmt.Errorf("-scale must be above 0, not %g", o.scale)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	scenarios, err := choose(o.scenario)
	if err != nil {
		return err
	}
	if o.list {
		return list(stdout, scenarios)
	}
	server, err := pgtest.Start(ctx, scenario.Settings()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	env, err := scenario.Open(ctx, server.URL, o.scale, func(format string, args ...any) {
		fmt.Fprintf(stderr, "  "+format+"\n", args...)
	})
	if err != nil {
		return err
	}
	defer env.Close()
	machine, err := env.Machine(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s, %d CPUs, %s\n", runtime.Version(), runtime.NumCPU(), machine)
	if o.cpuProfile != "" {
		stopProfile, err := profile(o.cpuProfile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stopProfile()) }()
	}
	return measureAll(ctx, env, scenarios, o.json, stdout, stderr)
}

func measureAll(ctx context.Context, env *scenario.Env, scenarios []scenario.Scenario, asJSON bool, stdout, stderr io.Writer) error {
	for _, s := range scenarios {
		fmt.Fprintf(stderr, "%s …\n", s.Name)
		began := time.Now()
		results, err := s.Run(ctx, env)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if asJSON {
			err = report.JSON(stdout, results)
		} else {
			err = report.Table(stdout, fmt.Sprintf("%s (%.0f s)", s.Name, time.Since(began).Seconds()), results)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func choose(name string) ([]scenario.Scenario, error) {
	all := scenario.All()
	if name == "" {
		return all, nil
	}
	names := make([]string, 0, len(all))
	for _, s := range all {
		if s.Name == name {
			return []scenario.Scenario{s}, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("no scenario %q; there are %s", name, strings.Join(names, ", "))
}

func list(w io.Writer, scenarios []scenario.Scenario) error {
	for _, s := range scenarios {
		if _, err := fmt.Fprintf(w, "%s\n%s\n\n", s.Name, wrap(s.About, "    ", 100)); err != nil {
			return err
		}
	}
	return nil
}

// wrap breaks a text into lines.
func wrap(text, indent string, width int) string {
	var lines []string
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width && line != indent {
			lines, line = append(lines, line), indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}

func profile(name string) (stop func() error, err error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
