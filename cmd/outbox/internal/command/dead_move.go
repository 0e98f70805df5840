package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/screen"
)

// moveBatch is how many letters a transaction moves.
const moveBatch = 500

// movement is requeueing or discarding.
type movement struct {
	verb, done string
	// wholeKeys says that the letters of a quarantined key go along.
	wholeKeys bool
	move      func(*outbox.DeadLetters, context.Context, outbox.DeadLetterFilter) (int64, error)
}

func (a *app) deadRequeue() *cobra.Command {
	return a.deadMove(&cobra.Command{
		Use: "requeue", Short: "Put dead letters back, to be forwarded",
		Long: `Puts dead letters back into the outbox, to be forwarded at once, with no attempts. The letters of a quarantined key go as a whole,
in their order, however few of them are selected.` + moveHelp,
		Example: `  outbox dead requeue --config outbox.yaml --id 4711,4712
  outbox dead requeue --config outbox.yaml --topic orders --error "connection refused" --dry-run
  outbox dead requeue --config outbox.yaml --all --yes`,
	}, movement{"Requeue", "requeued", true, (*outbox.DeadLetters).Requeue})
}

func (a *app) deadDiscard() *cobra.Command {
	return a.deadMove(&cobra.Command{
		Use: "discard", Short: "Delete dead letters, for ever",
		Long: `Deletes dead letters, for ever. When the last failed letter of a quarantined key goes, those that only followed it go back to the
outbox and are forwarded.` + moveHelp,
		Example: `  outbox dead discard --config outbox.yaml --id 4711
  outbox dead discard --config outbox.yaml --topic orders --older-than 720h --yes`,
	}, movement{"Discard", "discarded", false, (*outbox.DeadLetters).Discard})
}

const moveHelp = `

First it counts, and asks; --yes does not ask, and without a terminal it is needed. What dies meanwhile is left. It goes in
transactions of up to 500 letters, each all or nothing.`

func (a *app) deadMove(c *cobra.Command, m movement) *cobra.Command {
	c.Args = cobra.NoArgs
	flags := a.filters(c)
	c.Flags().BoolVar(&flags.All, "all", false, "all of them")
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	dry := c.Flags().Bool("dry-run", false, "only count")
	asJSON := c.Flags().Bool("json", false, "print the numbers as JSON")
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
		found, err := a.survey(c.Context(), letters, filter, m.wholeKeys)
		if err != nil {
			return err
		}
		moved := int64(0)
		if !*dry && found.total > 0 {
			if err := a.confirm(m, found, *yes); err != nil {
				return err
			}
			if moved, err = a.move(c.Context(), letters, filter, m, found.ids); err != nil {
				return fmt.Errorf("%w (%s before that: %d)", err, m.done, moved)
			}
		}
		if *asJSON {
			return a.printJSON(map[string]int64{"selected": int64(len(found.ids)), "touched": found.total, m.done: moved})
		}
		rest := "."
		if flags.Limit > 0 && len(found.ids) == flags.Limit {
			rest = "; there may be more than --limit let through."
		}
		if *dry {
			return a.print("Would be " + m.done + ": " + found.String() + rest + "\n")
		}
		return a.print(screen.Count(moved, "letter") + " " + m.done + rest + "\n")
	}
	return c
}

// selective is a filter that selects by something.
func (f *filterFlags) selective() (outbox.DeadLetterFilter, error) {
	filter, err := f.filter()
	if err == nil && !f.All && len(f.ids) == 0 && f.UUID == "" && f.Topic == "" && f.Key == "" && f.ErrorContains == "" && f.OlderThan == 0 {
		err = usage("nothing is selected: use --id, --uuid, --topic, --key, --error or --older-than, or --all to mean every dead letter")
	}
	return filter, err
}

// found is what a filter selects.
type found struct {
	ids   []int64
	total int64 // with what goes along
}

// String says how many letters there are.
func (f found) String() string {
	text := screen.Count(f.total, "letter")
	if along := f.total - int64(len(f.ids)); along > 0 {
		text += screen.Sprintf(", %d of them with their key", along)
	}
	return text
}

// survey counts what the filter selects, and what goes along with it.
func (a *app) survey(ctx context.Context, letters *outbox.DeadLetters, filter outbox.DeadLetterFilter, wholeKeys bool) (found, error) {
	var f found
	defer a.screen.Status("")
	keys := map[string]int64{} // quarantined ones: how many of their letters are selected
	err := eachPage(ctx, letters, filter, func(page []outbox.DeadLetter) error {
		for _, l := range page {
			f.ids = append(f.ids, l.ID)
			if l.Quarantines && wholeKeys {
				keys[l.Key]++
			}
		}
		a.screen.Status("Counting: " + screen.Count(len(f.ids), "letter"))
		return nil
	})
	f.total = int64(len(f.ids))
	if err != nil {
		return f, err
	}
	for key, selected := range keys {
		f.total -= selected
		err := eachPage(ctx, letters, outbox.DeadLetterFilter{Key: key}, func(page []outbox.DeadLetter) error {
			f.total += int64(len(page))
			a.screen.Status("Counting: " + screen.Count(f.total, "letter"))
			return nil
		})
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// confirm asks whoever is there.
func (a *app) confirm(m movement, f found, yes bool) error {
	if yes {
		return nil
	}
	if !a.Asks {
		return usage("--yes is needed where nobody can be asked; it would be: " + f.String())
	}
	_, _ = fmt.Fprintf(a.Stderr, "%s %s? [y/N] ", m.verb, f)
	answer, _ := bufio.NewReader(a.Stdin).ReadString('\n') // no answer is no
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}

// move moves the letters with these ids, as far as the filter still selects them.
func (a *app) move(ctx context.Context, letters *outbox.DeadLetters, filter outbox.DeadLetterFilter, m movement, ids []int64) (moved int64, err error) {
	defer a.screen.Status("")
	filter.Limit = 0
	tried := 0
	for batch := range slices.Chunk(ids, moveBatch) {
		filter.IDs = batch
		n, err := m.move(letters, ctx, filter)
		moved += n
		if err != nil {
			return moved, err
		}
		tried += len(batch)
		a.screen.Status(screen.Sprintf("%d of %d done", tried, len(ids)))
	}
	return moved, nil
}
