package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/screen"
)

const (
	publishBatch = 500
	publishBytes = 16 << 20
	// publishPause is how long a batch waits for the next line, so that what a pipe gives slowly is not held back.
	publishPause = 200 * time.Millisecond
)

// publishFlags say what to make of standard input.
type publishFlags struct {
	topic, key string
	metadata   map[string]string
	one, lines bool
}

func (a *app) publish() *cobra.Command {
	c := &cobra.Command{
		Use: "publish", Short: "Write messages from standard input into the outbox", Args: cobra.NoArgs,
		Long: `Writes messages from standard input into the outbox, from where they are forwarded: a line each, without its line break; with
--one all of the input as one message; with --json-lines each line an object with these fields, of which all but payload may
be left out:

  {"uuid": "…", "topic": "orders", "key": "alice", "metadata": {"name": "value"}, "payload": "text, or any JSON"}

payload_base64 stands for payload that is no text. The flags are for what a line does not say. It goes in transactions of
up to 500 messages. At the first one that is refused it ends; the error names its line, and those before it are written.
The database role needs what "outbox grants --role writer" gives.`,
		Example: `  echo '{"order": 1}' | outbox publish --config outbox.yaml --topic orders --key alice
  outbox publish --config outbox.yaml --topic images --one --metadata type=image/png < picture.png
  outbox dead list --config old.yaml --json | outbox publish --config new.yaml --json-lines`,
	}
	a.settings(c, named("database", "schema", "table"))
	a.selects(c)
	f := publishFlags{}
	c.Flags().StringVar(&f.topic, "topic", "", "`topic` to forward to")
	c.Flags().StringVar(&f.key, "key", "", "ordering `key`; none asks for no order")
	c.Flags().StringToStringVar(&f.metadata, "metadata", nil, "`name=value`; may be repeated")
	c.Flags().Lookup("metadata").DefValue = "" // pflag writes [], which is not what to type
	c.Flags().BoolVar(&f.one, "one", false, "all of the input is one message")
	c.Flags().BoolVar(&f.lines, "json-lines", false, "each line is an object")
	asJSON := c.Flags().Bool("json", false, "print the number as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case f.one && f.lines:
			return usage("--one and --json-lines exclude one another")
		case f.topic == "" && !f.lines:
			return usage("--topic is missing")
		case f.key != "" && f.metadata[outbox.KeyMetadata] != "":
			return usage("--key and --metadata " + outbox.KeyMetadata + " say the same; give one of them")
		}
		o, err := a.loadOne(c.Context())
		if err != nil {
			return err
		}
		pool, err := open(c.Context(), o, 1)
		if err != nil {
			return err
		}
		defer pool.Close()
		w := &writer{app: a, pool: pool, config: outbox.PublisherConfig{Schema: o.Forwarder.Schema}}
		if err := w.writeAll(c.Context(), f.read(a.Stdin)); err != nil {
			return fmt.Errorf("%w (messages written before that: %d)", err, w.written)
		}
		if *asJSON {
			return a.printJSON(map[string]int{"published": w.written})
		}
		a.note("%s written.", screen.Count(w.written, "message"))
		return nil
	}
	return c
}

// addressed is a message with where it came from and goes to.
type addressed struct {
	line  int
	topic string
	*message.Message
}

// writer writes messages into the outbox.
type writer struct {
	*app
	pool    *pgxpool.Pool
	config  outbox.PublisherConfig
	written int
}

// writeAll writes what comes, in batches, until the source ends.
func (w *writer) writeAll(ctx context.Context, source *source) error {
	defer source.stop()
	defer w.screen.Status("")
	for {
		batch, err := source.batch(ctx)
		if wrote := w.write(ctx, batch); wrote != nil {
			return wrote
		}
		w.screen.Status(screen.Count(w.written, "message") + " written")
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// write writes a batch in one transaction. If a message is refused, those before it are written.
func (w *writer) write(ctx context.Context, batch []addressed) error {
	if len(batch) == 0 {
		return nil
	}
	var refused error
	written := 0
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		publisher, err := outbox.NewPgxPublisher(tx, w.config, nil)
		if err != nil {
			return err
		}
		for from := 0; from < len(batch) && refused == nil; {
			to := sameTopic(batch, from)
			messages := make([]*message.Message, 0, to-from)
			for _, m := range batch[from:to] {
				m.SetContext(ctx)
				messages = append(messages, m.Message)
			}
			err := publisher.Publish(batch[from].topic, messages...)
			var refusal *outbox.MessageError
			if errors.As(err, &refusal) { // nothing of the call is written: what stands before it is tried again
				refused = fmt.Errorf("line %d: %s: %s", batch[from+refusal.Index].line, refusal.Field, refusal.Reason)
				messages = messages[:refusal.Index]
				err = publisher.Publish(batch[from].topic, messages...)
			}
			if err != nil {
				return err
			}
			from, written = to, written+len(messages)
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.written += written
	return refused
}

// sameTopic is where the messages of batch[from]'s topic end.
func sameTopic(batch []addressed, from int) int {
	to := from + 1
	for to < len(batch) && batch[to].topic == batch[from].topic {
		to++
	}
	return to
}
