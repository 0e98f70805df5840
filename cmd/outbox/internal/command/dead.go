package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// pageSize bounds how many letters, with their payloads, are in memory at once.
const pageSize = 100

func (a *app) dead() *cobra.Command {
	return group(&cobra.Command{
		Use: "dead", Short: "Look after the dead letters: messages that could not be forwarded",
		Long: `Looks after the dead letters: messages that could not be forwarded, and those that followed them because they have the same key.
They are kept until they are requeued or discarded.

The database role needs what "outbox grants --role operator" gives.`,
		Example: `  outbox dead list --config outbox.yaml --topic orders
  outbox dead show --config outbox.yaml --id 4711
  outbox dead requeue --config outbox.yaml --key alice`,
	}, a.deadList(), a.deadShow(), a.deadRequeue(), a.deadDiscard())
}

// filterFlags are a filter on the command line.
type filterFlags struct {
	outbox.DeadLetterFilter
	ids   []int64
	after int64
	given *pflag.FlagSet
}

// filters adds the flags that select letters.
func (a *app) filters(c *cobra.Command) *filterFlags {
	a.settings(c, named("database", "schema", "table"))
	a.selects(c)
	flags := c.Flags()
	f := &filterFlags{given: flags}
	flags.Int64SliceVar(&f.ids, "id", nil, "`ids` in the outbox; may be repeated")
	flags.StringVar(&f.UUID, "uuid", "", "the message's `uuid`")
	flags.StringVar(&f.Topic, "topic", "", "`topic` it was to be published to")
	flags.StringVar(&f.Key, "key", "", "ordering `key`")
	flags.StringVar(&f.ErrorContains, "error", "", "`part` of the error")
	flags.DurationVar(&f.OlderThan, "older-than", 0, "died at least that long ago, as 72h")
	flags.IntVar(&f.Limit, "limit", 0, "at most so many, of the lowest ids")
	return f
}

// filter gives it, or what is wrong with it, in the words of the flags.
func (f *filterFlags) filter() (outbox.DeadLetterFilter, error) {
	filter := f.DeadLetterFilter
	filter.AfterID = f.after
	if len(f.ids) > 0 {
		filter.IDs = f.ids
	}
	for _, flag := range []struct {
		name  string
		wrong bool
		value any
	}{
		{"--older-than", f.OlderThan < 0, f.OlderThan},
		{"--limit", f.Limit < 0, f.Limit},
		{"--after", f.after < 0, f.after},
	} {
		if flag.wrong {
			return filter, usage(fmt.Sprintf("%s: %v must be positive", flag.name, flag.value))
		}
	}
	for _, name := range []string{"uuid", "topic", "key", "error"} { // a script's variable that is not set must not select all
		if flag := f.given.Lookup(name); flag.Changed && flag.Value.String() == "" {
			return filter, usage("--" + name + ": it is empty; leave it out if it does not matter")
		}
	}
	if err := filter.Validate(); err != nil { // what PostgreSQL can't store
		return filter, usageError{err}
	}
	return filter, nil
}

// deadLetters opens the tool for the one outbox that is meant.
func (a *app) deadLetters(ctx context.Context) (_ *outbox.DeadLetters, shut func(), err error) {
	o, err := a.loadOne(ctx)
	if err != nil {
		return nil, nil, err
	}
	pool, err := open(ctx, o, 1)
	if err != nil {
		return nil, nil, err
	}
	letters, err := outbox.NewDeadLetters(pool, o.Forwarder.Schema)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return letters, pool.Close, nil
}

// eachPage calls do with the letters that the filter selects, page by page; Limit 0 is all of them.
func eachPage(ctx context.Context, letters *outbox.DeadLetters, filter outbox.DeadLetterFilter, do func([]outbox.DeadLetter) error) error {
	left := filter.Limit
	for {
		if filter.Limit = pageSize; left > 0 {
			filter.Limit = min(pageSize, left)
		}
		page, err := letters.List(ctx, filter)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := do(page); err != nil {
			return err
		}
		if left > 0 {
			if left -= len(page); left <= 0 {
				return nil
			}
		}
		filter.AfterID = page[len(page)-1].ID
	}
}

// died says when a letter died.
func died(l outbox.DeadLetter) string {
	return l.DiedAt.Format(time.RFC3339) + " (" + age(l.Age) + " ago)"
}
