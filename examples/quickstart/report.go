package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// report is what came of the story. The orders table is the truth to which it holds what was booked.
type report struct {
	committed  int
	rolledBack int
	booked     int // committed orders that took effect
	suppressed int // copies that the inbox knew
	dead       requeued
	perSecond  float64

	lost       int // committed, but without effect
	leaked     int // took effect, but never committed
	twice      int // took effect more than once
	wrong      int // customers whose total is not that of their orders
	outOfOrder int // took effect before an earlier order of their customer
	left       int // still in the outbox
}

// balance holds the bookings against the orders.
const balance = `
	SELECT (SELECT count(*) FROM orders),
	  (SELECT count(*) FROM orders o WHERE EXISTS (SELECT 1 FROM bookings b WHERE b.order_id = o.id)),
	  (SELECT count(DISTINCT order_id) FROM bookings b WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.id = b.order_id)),
	  (SELECT count(*) FROM (SELECT FROM bookings GROUP BY order_id HAVING count(*) > 1) b),
	  (SELECT count(*) FROM totals t
	     LEFT JOIN (SELECT customer, count(*) AS orders, sum(cents) AS cents FROM orders GROUP BY customer) o USING (customer)
	   WHERE (t.orders, t.cents) IS DISTINCT FROM (coalesce(o.orders, 0), coalesce(o.cents, 0))),
	  (SELECT count(*) FROM (SELECT number, lag(number, 1, 0) OVER (PARTITION BY customer ORDER BY seq) AS previous
	     FROM bookings) b WHERE number <> previous + 1),
	  (SELECT coalesce(count(*) / nullif(extract(epoch FROM max(at) - min(at)), 0), 0)::float8 FROM bookings)`

// count asks the database.
func (r *report) count(ctx context.Context, pool *pgxpool.Pool) error {
	err := pool.QueryRow(ctx, balance).Scan(&r.committed, &r.booked, &r.leaked, &r.twice, &r.wrong, &r.outOfOrder, &r.perSecond)
	if err != nil {
		return fmt.Errorf("drawing the balance: %w", err)
	}
	r.lost = r.committed - r.booked
	return nil
}

// holds says whether every invariant does.
func (r *report) holds() bool {
	return r.lost+r.leaked+r.twice+r.wrong+r.outOfOrder+r.left+r.dead.after == 0 && r.dead.back == r.dead.before
}

// print draws the table.
func (r *report) print(s *screen) {
	t := table.NewWriter()
	t.SetStyle(table.StyleRounded)
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}})
	fact := func(name string, value int, remark string) {
		t.AppendRow(table.Row{name, s.sprintf("%d", value), s.colour(text.Faint, remark)})
	}
	invariant := func(name string, value int, promise string) {
		number, verdict := s.colour(text.FgGreen, "0"), s.colour(text.FgGreen, "✔ "+promise)
		if value != 0 {
			number, verdict = s.colour(text.FgRed, s.sprintf("%d", value)), s.colour(text.FgRed, "✘ broken: "+promise)
		}
		t.AppendRow(table.Row{name, number, verdict})
	}

	fact("orders committed", r.committed, "each with its message in one transaction")
	fact("rolled back", r.rolledBack, "after the message had been written")
	fact("took effect", r.booked, "by three forwarders, one of them cut off")
	fact("duplicates suppressed", r.suppressed, "by the inbox: redelivered, or sent again after a fault")
	fact("dead letters before", r.dead.before, s.sprintf("one refused by the broker, %d behind it", r.dead.tail))
	fact("requeued", r.dead.back, "once the broker was mended")
	t.AppendSeparator()
	invariant("lost", r.lost, "what was committed takes effect")
	invariant("leaked from rollbacks", r.leaked, "what was rolled back was never there")
	invariant("with more than 1 effect", r.twice, "effects per order: exactly 1")
	invariant("wrong totals", r.wrong, "each customer's total is that of their orders")
	invariant("out of order", r.outOfOrder, "a customer's orders keep their order")
	invariant("dead letters after", r.dead.after, "what was requeued arrives")
	invariant("left in the outbox", r.left, "the outbox runs empty")
	t.AppendSeparator()
	fact("messages/s", int(r.perSecond), "first to last effect, faults included")

	s.write("\n" + t.Render() + "\n")
	if r.holds() {
		s.write(s.colour(text.FgGreen, "Every invariant holds.") + "\n")
	} else {
		s.write(s.colour(text.FgRed, "An invariant is broken.") + "\n")
	}
}
