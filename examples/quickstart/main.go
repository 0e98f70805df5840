// Quickstart plays a shop on a PostgreSQL that it starts itself, lets things go wrong, and counts what came of it:
//
//	go run ./examples/quickstart
//
// Read story.go first, then shop.go (how a message is written), forwarders.go (how it gets to the broker), consumer.go (how
// it takes effect once) and deadletters.go (what if the broker does not take it).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitOK     = 0
	exitBroken = 1 // an invariant does not hold, or the story could not be told to its end
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	options, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "quickstart:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	screen := newScreen(stdout)
	report, err := tell(ctx, options, screen)
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(stderr, "quickstart: interrupted")
		return exitBroken
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "quickstart:", err)
		return exitBroken
	}
	report.print(screen)
	if !report.holds() {
		return exitBroken
	}
	return exitOK
}
