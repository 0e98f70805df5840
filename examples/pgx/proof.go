package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// compare holds this run's statements against its accounts.
const compare = `
	SELECT coalesce(sum(a.entries), 0), coalesce(sum(s.entries), 0), coalesce(sum(s.disorder), 0),
	       coalesce(sum(a.cents), 0), count(*) FILTER (WHERE a.cents <> $2 + coalesce(s.cents, 0))
	FROM bank.accounts a LEFT JOIN bank.statements s ON s.account = a.name WHERE a.name LIKE $1 || '-%'`

type comparison struct{ entries, stated, disorder, cents, wrong int64 }

func (b *bank) compare(ctx context.Context) (c comparison, err error) {
	err = b.pool.QueryRow(ctx, compare, b.run, opening).Scan(&c.entries, &c.stated, &c.disorder, &c.cents, &c.wrong)
	return c, err
}

// awaitStatements returns when as many entries are stated as were made.
func (b *bank) awaitStatements(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		c, err := b.compare(ctx)
		if err != nil || c.stated >= c.entries {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d entries are stated: %w", c.stated, c.entries, ctx.Err())
		}
	}
}

// prove prints what came of it. It is an error if an invariant does not hold.
func (b *bank) prove(ctx context.Context, stdout io.Writer) error {
	c, err := b.compare(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	line := func(name string, value int64, remark string) {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\n", name, value, remark)
	}
	line("transfers", b.kept.Load(), "by eight tellers at once")
	line("declined", transfers-b.kept.Load(), "rolled back, and their messages with them")
	line("entries", c.entries, "two a transfer, each with a message")
	line("stated", c.stated, "entries that took effect in the statements")
	line("copies", b.copies.Load(), "that the inbox knew")
	line("out of order", c.disorder, "entries that came before an earlier one of their account")
	line("wrong statements", c.wrong, "that differ from their account")
	line("money", c.cents, fmt.Sprintf("cents in %d accounts that began with %d each", accounts, opening))
	if err := w.Flush(); err != nil {
		return err
	}
	if c.stated != c.entries || c.disorder+c.wrong != 0 || c.cents != accounts*opening || c.entries != 2*b.kept.Load() {
		return errors.New("an invariant is broken")
	}
	_, err = fmt.Fprintln(stdout, "Every account's statement is complete and in order, and no money was made or lost.")
	return err
}
