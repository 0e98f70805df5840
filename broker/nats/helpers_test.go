package nats_test

import (
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/nats"
)

const patience = brokertest.Patience

var (
	publishBatch, outgoing = brokertest.PublishBatch, brokertest.Outgoing
	subscribe, receive     = brokertest.Messages, brokertest.Receive
)

// tick is between two looks at a condition.
const tick = 50 * time.Millisecond

// open opens a NATS, with parameters and a group that may be empty.
func open(t testing.TB, url, parameters, group string) broker.Broker {
	t.Helper()
	return brokertest.Open(t, nats.Driver{}, url+"?"+parameters, group)
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

// foreignMessage has what a Watermill message never has.
func foreignMessage(topic string) *natsgo.Msg {
	return &natsgo.Msg{Subject: topic, Data: []byte("payload"), Header: natsgo.Header{
		"twice": {"a", "b"}, "Nats-Msg-Id": {"1"}, "Nats-Unheard-Of": {"x"},
	}}
}
