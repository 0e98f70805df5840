package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// report is what came of the story. The orders table is the truth to which it holds what arrived.
type report struct {
	committed  int
	rolledBack int
	forwarded  int // committed orders that arrived
	duplicates int // arrivals beyond an order's first
	perSecond  float64

	lost       int // committed, but never arrived
	leaked     int // arrived, but never committed
	outOfOrder int // arrived before an earlier order of their customer
	left       int // still in the outbox
}

func newReport(ctx context.Context, d *database, s *shop, arrived ledger, left int) (*report, error) {
	if arrived.unreadable != nil {
		return nil, arrived.unreadable
	}
	rows, err := d.pool.Query(ctx, `SELECT id FROM orders`)
	if err != nil {
		return nil, err
	}
	orders, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the orders: %w", err)
	}
	r := &report{
		committed:  len(orders),
		rolledBack: int(s.rolledBack.Load()),
		duplicates: arrived.duplicates,
		outOfOrder: arrived.outOfOrder,
		left:       left,
	}
	for _, id := range orders {
		if arrived.deliveries[id] > 0 {
			r.forwarded++
		}
	}
	r.lost = r.committed - r.forwarded
	r.leaked = len(arrived.deliveries) - r.forwarded
	if took := arrived.latest.Sub(s.opened); took > 0 {
		r.perSecond = float64(r.forwarded) / took.Seconds()
	}
	return r, nil
}

// holds says whether every invariant does.
func (r *report) holds() bool {
	return r.lost == 0 && r.leaked == 0 && r.outOfOrder == 0 && r.left == 0
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
	fact("forwarded", r.forwarded, "by three forwarders, one of them cut off")
	fact("duplicates", r.duplicates, "what was in flight is sent again")
	t.AppendSeparator()
	invariant("lost", r.lost, "what was committed arrives")
	invariant("leaked from rollbacks", r.leaked, "what was rolled back was never there")
	invariant("out of order", r.outOfOrder, "a customer's orders keep their order")
	invariant("left in the outbox", r.left, "the outbox runs empty")
	t.AppendSeparator()
	fact("messages/s", int(r.perSecond), "start to last arrival, faults included")

	s.write("\n" + t.Render() + "\n")
	if r.holds() {
		s.write(s.colour(text.FgGreen, "Every invariant holds.") + "\n")
	} else {
		s.write(s.colour(text.FgRed, "An invariant is broken.") + "\n")
	}
}
