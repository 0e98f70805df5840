package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// tally is what is in the database of this run.
type tally struct{ orders, emails, sent int }

func (d *demo) count(ctx context.Context, pool *pgxpool.Pool) (t tally, err error) {
	err = pool.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM shop.orders WHERE id LIKE $1),
		(SELECT count(*) FROM shop.emails WHERE order_id LIKE $1),
		(SELECT count(DISTINCT order_id) FROM shop.emails WHERE order_id LIKE $1 AND sent_at IS NOT NULL)`, d.run+"-%").
		Scan(&t.orders, &t.emails, &t.sent)
	return t, err
}

// await returns when the outbox is empty and every order has its email.
func (d *demo) await(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		t, err := d.count(ctx, pool)
		if err != nil {
			return err
		}
		stats, err := outbox.ReadStats(ctx, pool, outbox.Schema{})
		if err != nil || t.sent >= t.orders && stats.Ready+stats.Retrying+stats.Parked == 0 {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d orders have their email: %w", t.sent, t.orders, ctx.Err())
		}
	}
}

// prove prints what came of it. It is an error if an invariant does not hold.
func (d *demo) prove(ctx context.Context, pool *pgxpool.Pool) error {
	t, err := d.count(ctx, pool)
	if err != nil {
		return err
	}
	calls, delivered, about := d.mailer.tally(d.run)
	events := d.broker.reached(d.run)
	w := tabwriter.NewWriter(d.stdout, 0, 0, 2, ' ', 0)
	line := func(name string, value int, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\n", name, value, fmt.Sprintf(format, args...))
	}
	line("orders", t.orders, "by %d requests, since one answer in five was lost and the client asked again", d.client.requests.Load())
	line("refused", int(d.answers.invalid.Load()), "invalid: 422")
	line("rolled back", int(d.answers.declined.Load()), "declined when order and event had been written: 402")
	line("events", events, "that reached the broker, though %d connections of the forwarders were cut", d.cut.Load())
	line("copies", int(d.copies.Load()), "that the inbox knew")
	line("emails", t.emails, "in the database, by the inbox's transaction")
	line("delivered", delivered, "by a mail provider that was called %d times, since it lost one answer in seven", calls)
	if err := w.Flush(); err != nil {
		return err
	}
	taken := int(d.answers.taken.Load())
	if t != (tally{taken, taken, taken}) || events != taken || delivered != taken || about != taken {
		return errors.New("an invariant is broken")
	}
	_, err = fmt.Fprintln(d.stdout, "Every order that was taken has one event and one email, and no other has any.")
	return err
}
