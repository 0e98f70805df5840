package outbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestWhatAHandlerReturnsCommitsWithItsEffects(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		config := serviceConfig()
		config.PublishTopic = "done"
		config.Publisher.Key = func(topic string, msg *message.Message) (string, error) { return topic + "/" + msg.UUID, nil }
		broken := errors.New("broken")
		fails := true
		h := c.inbox(t, 1, config).Middleware(func(msg *message.Message) ([]*message.Message, error) {
			if err := effect(msg.Context(), msg.UUID); err != nil {
				return nil, err
			}
			out := []*message.Message{message.NewMessage("1", []byte("one")), message.NewMessage("2", nil)}
			if fails {
				return out, broken
			}
			return out, nil
		})
		require.ErrorIs(t, handle(h, incoming(t, "a")), broken)
		require.Zero(t, c.number(t, `public.outbox`), "an error takes the messages with it")
		fails = false
		for range 2 {
			produced, err := h(incoming(t, "a"))
			require.NoError(t, err)
			require.Empty(t, produced, "the router has nothing to publish")
		}
		require.Equal(t, 1, c.number(t, `public.outbox WHERE uuid = '1' AND topic = 'done' AND key = 'done/1' AND payload = 'one'`))
		require.Equal(t, 1, c.number(t, `public.outbox WHERE uuid = '2' AND key = 'done/2' AND payload IS NULL`))
		require.Equal(t, 2, c.number(t, `public.outbox`))
	})
}

func TestReturnedMessagesInheritContextAndCorrelation(t *testing.T) {
	t.Parallel()
	require.Equal(t, "correlation_id", middleware.CorrelationIDMetadataKey, "which the inbox copies")
	onEachDriver(t, func(t *testing.T, c consuming) {
		type tenant struct{}
		var seen []any
		config := serviceConfig()
		config.PublishTopic = "done"
		config.Publisher.Check = func(_ string, msg *message.Message) error {
			seen = append(seen, msg.Context().Value(tenant{}))
			_, nested := outbox.TxFromContext(msg.Context())
			require.False(t, nested, "it would outlive the transaction")
			return nil
		}
		h := c.inbox(t, 1, config).Middleware(func(msg *message.Message) ([]*message.Message, error) {
			plain, own, forwarded := message.NewMessage("plain", nil), message.NewMessage("own", nil), msg.Copy()
			plain.Metadata = nil
			own.SetContext(context.WithValue(t.Context(), tenant{}, "its own"))
			middleware.SetCorrelationID("its own", own)
			return []*message.Message{plain, own, forwarded}, nil
		})
		msg := incoming(t, "a")
		msg.SetContext(context.WithValue(msg.Context(), tenant{}, "the incoming one's"))
		middleware.SetCorrelationID("the incoming one's", msg)
		require.NoError(t, handle(h, msg))
		require.Equal(t, []any{"the incoming one's", "its own", "the incoming one's"}, seen)
		require.Equal(t, 2, c.number(t, `public.outbox WHERE metadata->>'correlation_id' = 'the incoming one''s' AND uuid IN ('plain', 'a')`))
		require.Equal(t, 1, c.number(t, `public.outbox WHERE metadata->>'correlation_id' = 'its own' AND uuid = 'own'`))

		h = c.inbox(t, 1, config).Middleware(func(*message.Message) ([]*message.Message, error) {
			return []*message.Message{message.NewMessage("uncorrelated", nil)}, nil
		})
		require.NoError(t, handle(h, incoming(t, "b")))
		require.Equal(t, 1, c.number(t, `public.outbox WHERE uuid = 'uncorrelated' AND metadata = '{}'`))
	})
}

// What can't be stored fails the message as a whole, and says so.
func TestReturnedMessagesThatCannotBeStoredFailTheMessage(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		returns := func(out *message.Message) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				return []*message.Message{out}, effect(msg.Context(), msg.UUID)
			}
		}
		nowhere := c.inbox(t, 1, serviceConfig())
		require.ErrorIs(t, handle(nowhere.Middleware(returns(message.NewMessage("o", nil))), incoming(t, "a")), outbox.ErrNoPublishTopic)
		config := serviceConfig()
		config.PublishTopic = "done"
		inbox := c.inbox(t, 1, config)
		bad := message.NewMessage("o", nil)
		bad.Metadata["bad"] = "\x00"
		var refused *outbox.MessageError
		require.ErrorAs(t, handle(inbox.Middleware(returns(bad)), incoming(t, "a")), &refused)
		require.Equal(t, `metadata["bad"]`, refused.Field)
		require.ErrorAs(t, handle(inbox.Middleware(returns(nil)), incoming(t, "a")), &refused)
		require.Equal(t, "message", refused.Field)
		require.Zero(t, c.effects(t, "a")+c.recorded(t, "a")+c.number(t, `public.outbox`))
	})
}

// A handler may publish by itself: one bus, made once, serves every message's transaction.
func TestAContextPublisherWritesIntoTheInboxsTransaction(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
		require.NoError(t, err)
		broken := errors.New("broken")
		fails := true
		h := c.inbox(t, 1, serviceConfig()).Middleware(func(msg *message.Message) ([]*message.Message, error) {
			err := publisher.Publish("emails", message.NewMessageWithContext(msg.Context(), "e", nil))
			if fails {
				return nil, errors.Join(err, broken)
			}
			return nil, err
		})
		require.ErrorIs(t, handle(h, incoming(t, "a")), broken)
		require.Zero(t, c.number(t, `public.outbox`))
		fails = false
		require.NoError(t, handle(h, incoming(t, "a")))
		require.NoError(t, handle(h, incoming(t, "a")))
		require.Equal(t, 1, c.number(t, `public.outbox WHERE topic = 'emails'`))
	})
}

func TestReturnedMessagesMayGoIntoAnotherOutbox(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		other := outbox.Schema{Name: "other", Table: "Out Box"}
		require.NoError(t, outbox.Migrate(t.Context(), c.pool, other))
		config := serviceConfig()
		config.PublishTopic, config.Publisher.Schema = "done", other
		h := c.inbox(t, 1, config).Middleware(func(*message.Message) ([]*message.Message, error) {
			return []*message.Message{message.NewMessage("o", nil)}, nil
		})
		require.NoError(t, handle(h, incoming(t, "a")))
		require.Equal(t, 1, c.number(t, `other."Out Box"`))
		require.Zero(t, c.number(t, `public.outbox`))
	})
}
