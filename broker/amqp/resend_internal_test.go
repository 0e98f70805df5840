package amqp

import (
	"fmt"
	"testing"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// A message closes the channel for a reason that names nobody: only that one is refused, wherever it stands.
func TestWhatClosesAChannelIsFoundAmongMany(t *testing.T) {
	url, isReal := services.AMQP(t)
	if !isReal {
		return
	}
	b, err := broker.NewMux(Driver{}).Open(t.Context(), url+"?groups=g", broker.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	p := b.(*opened).publisher
	live, err := p.link.get(t.Context())
	require.NoError(t, err)
	topic := testdb.Random("resend_")
	require.NoError(t, p.prepare(live, topic))

	const many = 101
	bad := map[int]bool{0: true, 50: true, many - 1: true}
	parcels := make([]parcel, many)
	for i := range parcels {
		msg := message.NewMessage(fmt.Sprint(i), nil)
		publishing, err := wamqp.DefaultMarshaler{}.Marshal(msg)
		require.NoError(t, err)
		if bad[i] {
			publishing.Headers["CC"] = "no list" // PRECONDITION_FAILED
		}
		parcels[i] = parcel{topic: topic, uuid: msg.UUID, publishing: publishing}
	}
	for i, err := range p.route(t.Context(), live, parcels) {
		if !bad[i] {
			require.NoError(t, err, i)
			continue
		}
		require.ErrorContains(t, err, "PRECONDITION_FAILED", i)
		require.Equal(t, outbox.FailurePermanent, b.Classify(err), i)
	}
	got := map[string]bool{}
	c, err := live.Channel()
	require.NoError(t, err)
	for {
		d, more, err := c.Get(topic+"_g", true)
		require.NoError(t, err)
		if !more {
			break
		}
		got[d.Headers[wamqp.DefaultMessageUUIDHeaderKey].(string)] = true
	}
	require.Len(t, got, many-len(bad))
}
