package nats_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/nats"
)

// patience is how long a test waits for a condition. It is not an assertion about time.
const patience = 60 * time.Second

// open opens a NATS, with parameters and a group that may be empty.
func open(t testing.TB, url, parameters, group string) broker.Broker {
	t.Helper()
	b, err := broker.NewMux(nats.Driver{}).Open(t.Context(), url+"?"+parameters, broker.Options{Group: group})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func outgoing(topic, key, payload string) outbox.Outgoing {
	msg := message.NewMessage(watermill.NewULID(), []byte(payload))
	outbox.SetKey(msg, key)
	return outbox.Outgoing{Topic: topic, Key: key, Message: msg}
}

func publishBatch(t testing.TB, b broker.Broker, batch ...outbox.Outgoing) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, batch)
}
