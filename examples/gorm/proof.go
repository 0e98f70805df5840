package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// tally counts what is in the database of a shop's run.
type tally struct{ orders, vouchers, invoices, invoiced, letters, announced int64 }

func count(ctx context.Context, o *office, shop *shop) (t tally, err error) {
	own := shop.run + "-%"
	db := o.db.WithContext(ctx)
	return t, errors.Join(
		db.Model(&Order{}).Where("id LIKE ?", own).Count(&t.orders).Error,
		db.Model(&Voucher{}).Where("code LIKE ?", own).Count(&t.vouchers).Error,
		db.Model(&Invoice{}).Where("order_id LIKE ?", own).Count(&t.invoices).Error,
		db.Model(&Invoice{}).Where("order_id LIKE ?", own).Distinct("order_id").Count(&t.invoiced).Error,
		db.Model(&Letter{}).Where("code LIKE ?", own).Count(&t.letters).Error,
		db.Model(&Letter{}).Where("code LIKE ?", own).Distinct("code").Count(&t.announced).Error,
	)
}

// await returns when every order has an invoice, and every voucher a letter.
func await(ctx context.Context, shop *shop, o *office) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		t, err := count(ctx, o, shop)
		if err != nil || t.invoiced >= t.orders && t.announced >= t.vouchers {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d orders are invoiced: %w", t.invoiced, t.orders, ctx.Err())
		}
	}
}

// prove prints what came of it. It is an error if an invariant does not hold.
func prove(ctx context.Context, stdout io.Writer, shop *shop, o *office) error {
	t, err := count(ctx, o, shop)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	line := func(name string, value int64, remark string) {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\n", name, value, remark)
	}
	line("orders", t.orders, "each with its message in one gorm transaction")
	line("declined", shop.declined, "rolled back, and their messages with them")
	line("invoices", t.invoices, "one an order")
	line("vouchers", t.vouchers, "each in a transaction within that of its order")
	line("refused", shop.refused, "rolled back to the savepoint, and their messages with them")
	line("letters", t.letters, "one a voucher")
	line("copies", o.copies.Load(), "that the inbox knew")
	if err := w.Flush(); err != nil {
		return err
	}
	if t != (tally{t.orders, t.vouchers, t.orders, t.orders, t.vouchers, t.vouchers}) || t.orders+shop.declined != attempts {
		return errors.New("an invariant is broken")
	}
	_, err = fmt.Fprintln(stdout, "Every order has one invoice, every voucher one letter, and what was rolled back has none.")
	return err
}
