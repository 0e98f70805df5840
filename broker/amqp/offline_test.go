package amqp_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/amqp"
)

// A server that takes connections and says nothing.
func TestBatchReturnsSoonAfterItsContext(t *testing.T) {
	address, heard := silent(t)
	b := open(t, "amqp://"+address+"?timeout=1h", "")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []error)
	go func() {
		done <- b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, []outbox.Outgoing{outgoing("t", "k", "1"), outgoing("t", "k", "2")})
	}()
	<-heard
	cancel()
	select {
	case errs := <-done:
		require.ErrorIs(t, errs[0], context.Canceled)
		require.Equal(t, outbox.FailureOutage, b.Classify(errs[0]))
		require.ErrorIs(t, errs[1], outbox.ErrHeldBack)
	case <-time.After(patience):
		require.FailNow(t, "it does not return")
	}
	require.ErrorIs(t, b.Ping(ctx), context.Canceled)
}

func TestNobodyListens(t *testing.T) {
	b := open(t, "amqp://somebody:pa55word@"+refusing(t)+","+refusing(t), "g")
	err := b.Publisher().Publish("t", message.NewMessage("1", nil))
	require.Equal(t, outbox.FailureOutage, b.Classify(err))
	require.NotContains(t, err.Error(), "pa55word")
	err = b.Ping(t.Context())
	require.ErrorContains(t, err, "amqp: ping: ")
	require.NotContains(t, err.Error(), "pa55word")
	s, err := b.Subscriber()
	require.NoError(t, err)
	_, err = s.Subscribe(t.Context(), "t")
	require.Equal(t, outbox.FailureOutage, b.Classify(err))
	require.NotContains(t, err.Error(), "pa55word")
	require.Error(t, s.(message.SubscribeInitializer).SubscribeInitialize("t"))
}

func TestURL(t *testing.T) {
	for url, part := range map[string]string{
		"amqp://localhost:x:y":            "host",
		"amqp://localhost?unrouted=lose":  "unrouted",
		"amqp://localhost?queue_type=x":   "queue_type",
		"amqp://localhost?prefetch=0":     "prefetch",
		"amqp://localhost?prefetch=66000": "prefetch",
		"amqp://localhost?group=g":        "group",
	} {
		_, err := broker.NewMux(amqp.Driver{}).Open(t.Context(), url, broker.Options{})
		var refused *broker.URLError
		require.ErrorAs(t, err, &refused, url)
		require.Equal(t, part, refused.Part, url)
	}
}
