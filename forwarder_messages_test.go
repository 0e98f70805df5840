package outbox_test

import (
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// catcher keeps whole messages.
type catcher struct {
	mu       sync.Mutex
	messages []*message.Message
}

func (c *catcher) Publish(_ string, messages ...*message.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages, messages...)
	return nil
}

func (c *catcher) Close() error { return nil }

func TestAForwardedMessageIsTheOneThatWasPublished(t *testing.T) {
	pool, out := migrated(t), &catcher{}
	publisher, err := outbox.NewPgxPublisher(pool, outbox.PublisherConfig{}, nil)
	require.NoError(t, err)
	for _, payload := range [][]byte{nil, {}, {0x0a, 0x03, 'a', 'b', 'c'}, []byte("{not json"), make([]byte, 1<<20)} {
		msg := message.NewMessage("the id", payload)
		msg.Metadata = message.Metadata{"plain": "text", "odd \"\\\n": "\u2028<>&é\t", "": "empty name", "empty value": ""}
		outbox.SetKey(msg, "k")
		require.NoError(t, publisher.Publish("orders", msg))
		_, err := forwarder(t, pool, out, outbox.ForwarderConfig{}).RunOnce(t.Context())
		require.NoError(t, err)
		got := out.messages[len(out.messages)-1]
		require.Equal(t, msg.UUID, got.UUID)
		require.Equal(t, msg.Metadata, got.Metadata)
		require.Equal(t, msg.Payload, got.Payload)
		require.Equal(t, payload == nil, got.Payload == nil, "nil stays nil, empty stays empty")
	}
}

func TestAnUnkeyedMessageCarriesNoKey(t *testing.T) {
	pool, out := migrated(t), &catcher{}
	put(t, pool, "orders", "", "1")
	_, err := pool.Exec(t.Context(), `INSERT INTO public.outbox (topic, key, uuid) VALUES ('orders', 'by sql', 'u')`)
	require.NoError(t, err)
	_, err = forwarder(t, pool, out, outbox.ForwarderConfig{}).RunOnce(t.Context())
	require.NoError(t, err)
	for _, msg := range out.messages {
		if msg.UUID == "u" {
			require.Equal(t, message.Metadata{outbox.KeyMetadata: "by sql"}, msg.Metadata)
			require.Nil(t, msg.Payload)
		} else {
			require.Empty(t, outbox.Key(msg))
		}
	}
}

func TestADelayIsHonouredAndTakenOff(t *testing.T) {
	pool, out := migrated(t), &catcher{}
	publisher, err := outbox.NewPgxPublisher(pool, outbox.PublisherConfig{}, nil)
	require.NoError(t, err)
	msg := message.NewMessage("delayed", []byte("x"))
	delay.Message(msg, delay.For(time.Hour))
	require.NoError(t, publisher.Publish("orders", msg))
	f := forwarder(t, pool, out, outbox.ForwarderConfig{})
	n, err := f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = pool.Exec(t.Context(), `UPDATE public.outbox SET next_attempt_at = next_attempt_at - interval '1 hour'`)
	require.NoError(t, err)
	n, err = f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Empty(t, out.messages[0].Metadata, "or every further hop would delay again")
}
