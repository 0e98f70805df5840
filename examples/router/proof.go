package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

type tally struct{ orders, parcels, shipped, invoices, billed, poisoned int }

// count counts what is in the database of this run.
func (s *shop) count(ctx context.Context) (t tally, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM chain.orders WHERE id LIKE $1),
		(SELECT count(*) FROM chain.parcels WHERE order_id LIKE $1),
		(SELECT count(DISTINCT order_id) FROM chain.parcels WHERE order_id LIKE $1),
		(SELECT count(*) FROM chain.invoices WHERE order_id LIKE $1),
		(SELECT count(DISTINCT order_id) FROM chain.invoices JOIN chain.orders ON id = order_id AND orders.cents = invoices.cents
			WHERE order_id LIKE $1),
		(SELECT count(*) FROM chain.poisoned WHERE message_id LIKE $1)`, s.run+"-%").
		Scan(&t.orders, &t.parcels, &t.shipped, &t.invoices, &t.billed, &t.poisoned)
	return t, err
}

// await returns when the last link of the chain has had every order, and the desk the message that nobody can read.
func (s *shop) await(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		t, err := s.count(ctx)
		if err != nil || t.billed >= orders && t.poisoned > 0 {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d orders are billed: %w", t.billed, t.orders, ctx.Err())
		}
	}
}

// prove prints what came of it. It is an error if an invariant does not hold.
func (s *shop) prove(ctx context.Context, stdout io.Writer, faults *faults) error {
	t, err := s.count(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	line := func(name string, value int, remark string) {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\n", name, value, remark)
	}
	line("orders", t.orders, "by the shop")
	line("parcels", t.parcels, "by the warehouse: one an order")
	line("invoices", t.invoices, "by billing: one a parcel")
	line("failed tries", int(faults.failed.Load()), "errors and panics, after the effect and before the commit")
	line("copies", int(faults.copies.Load()), "that the inboxes knew")
	line("poisoned", t.poisoned, "the message that nobody can read")
	if err := w.Flush(); err != nil {
		return err
	}
	if t != (tally{orders, orders, orders, orders, orders, 1}) {
		return errors.New("an invariant is broken")
	}
	_, err = fmt.Fprintln(stdout, "Every order went through the chain, and took effect once at each link.")
	return err
}
