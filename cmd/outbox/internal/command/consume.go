package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
)

// defaultGroup is one for all who look; it goes on where the last one has ended.
const defaultGroup = "outbox-consume"

func (a *app) consume() *cobra.Command {
	c := &cobra.Command{
		Use: "consume", Short: "Print the messages of a topic as they come from the broker", Args: cobra.NoArgs,
		Long: `Prints the messages of a topic as they come from the broker: their payloads, a line each, or with --json all of them. Each is
acknowledged after it was printed. It takes part in a consumer group: a new one begins with the oldest message that the
broker has, and goes on where it has ended; do not use that of a service, which would miss what is printed here.`,
		Example: `  outbox consume --broker kafka://localhost:9092 --topic orders
  outbox consume --broker nats://localhost:4222 --topic orders --count 1 --json | jq -r .payload`,
	}
	a.settings(c, named("broker"))
	c.Flags().Lookup("broker").Usage = "URL of the broker to consume from"
	a.selects(c)
	topic := c.Flags().String("topic", "", "`topic` to subscribe to")
	_ = c.MarkFlagRequired("topic") // it is there
	group := c.Flags().String("group", defaultGroup, "consumer group")
	count := c.Flags().Int("count", 0, "end after so many messages; 0 goes on until interrupted")
	asJSON := c.Flags().Bool("json", false, "print a line of JSON for each")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *count < 0 {
			return usage(fmt.Sprintf("--count: %d must be positive", *count))
		}
		if *topic == "" {
			return usage("--topic: it is empty")
		}
		settings, err := a.load(c.Context(), config.Input{Broker: true})
		if err != nil {
			return err
		}
		if len(settings.Outboxes) > 1 {
			return usage("there are several outboxes; name one of them by --outbox, or give --broker")
		}
		opened, err := a.Brokers.Open(c.Context(), settings.Outboxes[0].Broker, broker.Options{
			Group: *group, Logger: watermill.NewSlogLogger(slog.New(slog.NewTextHandler(a.screen, &slog.HandlerOptions{Level: slog.LevelWarn}))),
		})
		if err != nil {
			return usageError{err}
		}
		err = a.printTopic(c.Context(), opened, *topic, *count, *asJSON)
		return errors.Join(err, opened.Close())
	}
	return c
}

// printTopic prints messages until there were so many, or ctx is done.
func (a *app) printTopic(ctx context.Context, from broker.Broker, topic string, count int, asJSON bool) error {
	subscriber, err := from.Subscriber()
	if err != nil {
		return err
	}
	defer func() { _ = subscriber.Close() }() // the broker's Close tells
	messages, err := subscriber.Subscribe(ctx, topic)
	if err != nil {
		return err
	}
	for printed := 0; count == 0 || printed < count; printed++ {
		msg, ok := <-messages
		if !ok {
			if ctx.Err() == nil {
				return errors.New("the broker has ended the subscription")
			}
			if count > 0 {
				return fmt.Errorf("interrupted after %d of %d messages", printed, count)
			}
			return nil
		}
		if err := a.printMessage(topic, msg, asJSON); err != nil {
			msg.Nack()
			return err
		}
		msg.Ack()
	}
	return nil
}

func (a *app) printMessage(topic string, msg *message.Message, asJSON bool) error {
	if !asJSON {
		_, err := io.WriteString(a.Stdout, string(msg.Payload)+"\n")
		return err
	}
	m := messageJSON{UUID: msg.UUID, Topic: topic, Key: outbox.Key(msg), Metadata: msg.Metadata}
	if err := m.setPayload(msg.Payload); err != nil {
		return err
	}
	return a.printLine(m)
}

// printLine writes a value as a line of JSON.
func (a *app) printLine(value any) error {
	encoder := json.NewEncoder(a.Stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
