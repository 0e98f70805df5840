package nats_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/nats"
)

// patience is how long a test waits for a condition. It is not an assertion about time.
const patience = 60 * time.Second

// tick is between two looks at a condition.
const tick = 50 * time.Millisecond

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

// client gives a JetStream client of the test's own.
func client(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	conn, err := natsgo.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

// stored gives what is stored of a topic, in its order.
func stored(t testing.TB, url, topic string) (messages []*jetstream.RawStreamMsg) {
	t.Helper()
	js := client(t, url)
	name, err := js.StreamNameBySubject(t.Context(), topic)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), name)
	require.NoError(t, err)
	for n := uint64(1); n <= stream.CachedInfo().State.LastSeq; n++ {
		m, err := stream.GetMsg(t.Context(), n)
		require.NoError(t, err)
		if m.Subject == topic {
			messages = append(messages, m)
		}
	}
	return messages
}

func subscribe(t testing.TB, b broker.Broker, topic string) <-chan *message.Message {
	t.Helper()
	subscriber, err := b.Subscriber()
	require.NoError(t, err)
	messages, err := subscriber.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	return messages
}

func receive(t testing.TB, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-messages:
		require.True(t, ok, "it was closed")
		return msg
	case <-time.After(patience):
		require.Fail(t, "waited in vain for a message")
		return nil
	}
}

// foreignMessage has what a Watermill message never has.
func foreignMessage(topic string) *natsgo.Msg {
	return &natsgo.Msg{Subject: topic, Data: []byte("payload"), Header: natsgo.Header{
		"twice": {"a", "b"}, "Nats-Msg-Id": {"1"}, "Nats-Unheard-Of": {"x"},
	}}
}
