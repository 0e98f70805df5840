package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func (a *app) deadList() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List dead letters", Args: cobra.NoArgs,
		Long: `Lists dead letters in the order of their ids, 100 a page unless --limit says how many. A line on standard error names the
--after of the next page.

With --json each letter is a line, complete with its payload, which "outbox publish --json-lines" reads.`,
		Example: `  outbox dead list --config outbox.yaml --topic orders --older-than 1h
  outbox dead list --config outbox.yaml --error "too large" --limit 20 --after 4711
  outbox dead list --config outbox.yaml --json | jq .error`,
	}
	flags := a.filters(c)
	c.Flags().Int64Var(&flags.after, "after", 0, "only `ids` above it: the next page")
	asJSON := c.Flags().Bool("json", false, "print a line of JSON for each")
	c.RunE = func(c *cobra.Command, _ []string) error {
		filter, err := flags.filter()
		if err != nil {
			return err
		}
		letters, shut, err := a.deadLetters(c.Context())
		if err != nil {
			return err
		}
		defer shut()
		return a.list(c.Context(), letters, filter, *asJSON)
	}
	return c
}

func (a *app) list(ctx context.Context, letters *outbox.DeadLetters, filter outbox.DeadLetterFilter, asJSON bool) error {
	if filter.Limit == 0 {
		filter.Limit = pageSize
	}
	limit, shown, last := filter.Limit, 0, int64(0)
	t := newTable(">id", "topic", "key", "uuid", ">attempts", "died", "error")
	err := eachPage(ctx, letters, filter, func(page []outbox.DeadLetter) error {
		shown, last = shown+len(page), page[len(page)-1].ID
		if asJSON {
			return a.printLetters(page)
		}
		for _, l := range page {
			t.AppendRow(table.Row{
				l.ID, cell(l.Topic, 40), cell(l.Key, 40), cell(l.UUID, 40), l.Attempts, age(l.Age) + " ago", cell(reason(l), 80),
			})
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case asJSON:
	case shown == 0:
		a.note("No dead letters.")
	default:
		err = a.print(t.Render() + "\n")
	}
	if shown >= limit {
		a.note("There may be more: --after %d", last)
	}
	return err
}

// reason is why a letter is one.
func reason(l outbox.DeadLetter) string {
	switch {
	case l.LastError != "":
		return l.LastError
	case l.Tail:
		return "(follows a dead letter of its key)"
	default:
		return ""
	}
}

func (a *app) printLetters(page []outbox.DeadLetter) error {
	for _, l := range page {
		letter, err := letterOf(l)
		if err != nil {
			return err
		}
		if err := a.printLine(letter); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) deadShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show", Short: "Show dead letters with payload, metadata and error", Args: cobra.NoArgs,
		Long:    "Shows dead letters with payload, metadata and error, as many as are selected.",
		Example: "  outbox dead show --config outbox.yaml --id 4711\n  outbox dead show --config outbox.yaml --key alice --limit 1",
	}
	flags := a.filters(c)
	c.Flags().BoolVar(&flags.All, "all", false, "all of them")
	asJSON := c.Flags().Bool("json", false, "print a line of JSON for each")
	c.RunE = func(c *cobra.Command, _ []string) error {
		filter, err := flags.selective()
		if err != nil {
			return err
		}
		letters, shut, err := a.deadLetters(c.Context())
		if err != nil {
			return err
		}
		defer shut()
		shown := 0
		err = eachPage(c.Context(), letters, filter, func(page []outbox.DeadLetter) error {
			shown += len(page)
			if *asJSON {
				return a.printLetters(page)
			}
			for _, l := range page {
				if err := a.print(describe(l)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil && shown == 0 {
			return errors.New("no dead letter is selected")
		}
		return err
	}
	return c
}

// describe is a letter for people.
func describe(l outbox.DeadLetter) string {
	var text strings.Builder
	line := func(name, value string) { fmt.Fprintf(&text, "%-10s %s\n", name, value) }
	line("id", fmt.Sprint(l.ID))
	line("uuid", cell(l.UUID, 0))
	line("topic", cell(l.Topic, 0))
	switch key := cell(l.Key, 0); {
	case l.Quarantines:
		line("key", key+" (quarantined: what is published with it follows into the dead letters)")
	case key != "":
		line("key", key)
	}
	line("published", l.CreatedAt.Format(time.RFC3339))
	line("died", died(l))
	line("attempts", fmt.Sprint(l.Attempts))
	line("error", cell(reason(l), 0))
	for _, name := range slices.Sorted(maps.Keys(l.Metadata)) {
		line("metadata", cell(name, 0)+" = "+cell(l.Metadata[name], 0))
	}
	line("payload", fmt.Sprintf("%d bytes", len(l.Payload)))
	fmt.Fprintf(&text, "\n%s\n\n", printable(string(l.Payload)))
	return text.String()
}
