package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// options are what the command line says.
type options struct {
	orders   int
	duration time.Duration
}

const usage = `Plays a shop: customers order, some orders are rolled back, the broker fails for a while, chokes on
one message, and delivers others twice, and a forwarder's connections are cut. Then it counts: no order
may be lost, leaked, booked twice or out of order.

Usage:
  go run ./examples/quickstart [flags]

Flags:
  -orders N      close the shop after N orders (default %d)
  -duration D    or after this time, whichever comes first (default %v)

Environment:
  DATABASE_URL   a PostgreSQL to use instead of a throw-away one. Everything happens in a schema
                 of its own, which is dropped at the end. A direct connection, not a pooler.
  PGBIN          the folder of the initdb and postgres to run.

Examples:
  go run ./examples/quickstart
  go run ./examples/quickstart -orders 1000
  go run ./examples/quickstart -orders 1000000 -duration 20s
  DATABASE_URL=postgres://me@localhost/test go run ./examples/quickstart

Exit status: 0 when every invariant holds, 1 when one does not, 2 for wrong flags.
`

// parseOptions reads the command line. Asked for help, it prints it and returns flag.ErrHelp.
func parseOptions(args []string, stdout io.Writer) (options, error) {
	o := options{orders: 8_000, duration: 10 * time.Second}
	defaults := o
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are the caller's to print
	flags.IntVar(&o.orders, "orders", o.orders, "")
	flags.DurationVar(&o.duration, "duration", o.duration, "")

	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintf(stdout, usage, defaults.orders, defaults.duration)
		return o, err
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is not a flag", flags.Arg(0))
	case o.orders < 1:
		err = fmt.Errorf("-orders must be at least 1, not %d", o.orders)
	case o.duration <= 0:
		err = fmt.Errorf("-duration must be positive, not %v", o.duration)
	}
	if err != nil {
		return o, fmt.Errorf("%w (see -help)", err)
	}
	return o, nil
}
