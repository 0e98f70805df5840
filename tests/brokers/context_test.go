package brokers

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// Watermill's Timeout leaves a message with a context that it has ended, and PoisonQueue then publishes that message.
func TestAMessageWhoseContextIsOverIsPublished(t *testing.T) {
	for _, p := range withAMQP(t) {
		t.Run(p.name, func(t *testing.T) {
			s := &site{place: p, address: p.shared(t)}
			b := s.open(t, testdb.Random("group_"))
			topic := testdb.Random("context_")
			r := read(t, b, topic)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			msg := message.NewMessageWithContext(ctx, watermill.NewULID(), []byte("late"))
			msg.Metadata.Set("note", "naïve → late")
			require.NoError(t, b.Publisher().Publish(topic, msg))
			eventually(t, "it is there", func() bool { return r.got() == 1 })
			r.requireInOrder(t, map[string][]string{"": {"late"}})
		})
	}
}
