// Orders is an HTTP service that takes orders, and a service that writes emails about them: once each, whatever fails.
//
//	go run ./examples/orders            # starts all of it, posts orders, prints what came of them
//	go run ./examples/orders --serve    # and stays up
//
// Its roles are processes of their own too: orders migrate, orders api, orders forward, orders email.
//
// Read order.go first (how an order and its event are written), then forward.go, email.go (how an event takes effect once,
// and how that reaches the world outside), api.go and server.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
)

const usage = `Usage: orders [--orders N] [--serve] [--addr host:port]    all roles in one process: the demonstration
       orders migrate|api|forward|email [--addr …]         one role, with DATABASE_URL and BROKER_URL set

  --orders N        how many orders the demonstration makes (100)
  --serve           keep it running after that
  --addr host:port  where the HTTP service listens (127.0.0.1:8080)
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	role := "demo"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		role, args = args[0], args[1:]
	}
	s := settings{databaseURL: os.Getenv("DATABASE_URL"), brokerURL: os.Getenv("BROKER_URL"), logger: slog.Default()}
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.Usage = func() { _, _ = fmt.Fprint(stdout, usage) }
	flags.StringVar(&s.addr, "addr", "127.0.0.1:8080", "")
	serve := flags.Bool("serve", false, "")
	wanted := flags.Int("orders", 100, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if role == "demo" {
		return runDemo(ctx, s, *wanted, *serve, stdout)
	}
	if err := s.check(role); err != nil {
		return err
	}
	switch role {
	case "migrate":
		return migrate(ctx, s)
	case "api":
		return runAPI(ctx, s)
	case "forward":
		return runForward(ctx, s)
	case "email":
		return runEmail(ctx, s, &fakeMailer{logger: s.logger})
	default:
		return fmt.Errorf("there is no role %q\n%s", role, usage)
	}
}

// runDemo runs the demonstration, on a PostgreSQL that it starts unless DATABASE_URL is set. In your program there is no
// such thing: leave out demo*.go.
func runDemo(ctx context.Context, s settings, wanted int, serve bool, stdout io.Writer) (err error) {
	server, err := pgtest.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	s.databaseURL = server.URL
	s.logger = slog.New(slog.DiscardHandler)
	if s.brokerURL == "" {
		s.brokerURL = "gochannel://"
	}
	if !serve {
		s.addr = "127.0.0.1:0"
	}
	return newDemo(s, wanted, stdout).play(ctx, serve)
}
