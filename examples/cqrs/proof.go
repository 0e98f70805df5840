package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// tally is what is in the database of this run.
type tally struct {
	requests, bookings, beers, reported int
	booked, earned                      int64 // cents
}

func (d *desk) count(ctx context.Context) (t tally, err error) {
	err = d.db.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM hotel.requests WHERE id LIKE $1),
		(SELECT count(*) FROM hotel.bookings WHERE guest LIKE $1),
		(SELECT count(*) FROM hotel.beers WHERE guest LIKE $1),
		(SELECT coalesce(sum(bookings), 0) FROM hotel.reports WHERE guest LIKE $1),
		(SELECT coalesce(sum(cents), 0) FROM hotel.bookings WHERE guest LIKE $1),
		(SELECT coalesce(sum(cents), 0) FROM hotel.reports WHERE guest LIKE $1)`, d.run+"-%").
		Scan(&t.requests, &t.bookings, &t.beers, &t.reported, &t.booked, &t.earned)
	return t, err
}

// await returns when the last handlers have had everything.
func (d *desk) await(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		t, err := d.count(ctx)
		if err != nil || min(t.beers, t.reported) >= t.requests {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d beers and %d reports for %d requests: %w", t.beers, t.reported, t.requests, ctx.Err())
		}
	}
}

// prove prints what came of it. It is an error if an invariant does not hold.
func (d *desk) prove(ctx context.Context, stdout io.Writer, faults *faults) error {
	t, err := d.count(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	line := func(name string, value int, remark string) {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\n", name, value, remark)
	}
	line("requests", t.requests, "each with its command BookRoom in one transaction")
	line("cancelled", d.cancelled, "rolled back, and their commands with them")
	line("bookings", t.bookings, "each with its event RoomBooked in the inbox's transaction")
	line("beers", t.beers, "by the command OrderBeer, which a handler of the event sends")
	line("reported", t.reported, "by another handler of the event")
	line("failed tries", int(faults.failed.Load()), "after booking and event, before the commit")
	line("copies", int(faults.copies.Load()), "that the inbox knew")
	if err := w.Flush(); err != nil {
		return err
	}
	if n := requests - d.cancelled; t != (tally{n, n, n, n, t.booked, t.booked}) {
		return errors.New("an invariant is broken")
	}
	_, err = fmt.Fprintln(stdout, "Every command and event took effect once at each handler.")
	return err
}
