// Package brokertest is what the drivers' tests do alike: it publishes, receives, and has what each driver must do whatever
// its broker.
package brokertest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Patience is how long a test waits for a condition. It is not an assertion about time.
const Patience = 60 * time.Second

// Open opens a broker, which is closed when the test ends.
func Open(t testing.TB, driver broker.Driver, url, group string) broker.Broker {
	t.Helper()
	b, err := broker.NewMux(driver).Open(t.Context(), url, broker.Options{Group: group})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// Outgoing makes a message of a batch.
func Outgoing(topic, key, payload string) outbox.Outgoing {
	msg := message.NewMessage(watermill.NewULID(), []byte(payload))
	outbox.SetKey(msg, key)
	return outbox.Outgoing{Topic: topic, Key: key, Message: msg}
}

// PublishBatch publishes a batch, and gives the verdicts.
func PublishBatch(t testing.TB, b broker.Broker, batch ...outbox.Outgoing) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	return b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, batch)
}

// Subscribe gives a subscriber, and what comes of a topic until the broker is closed.
func Subscribe(t testing.TB, b broker.Broker, topic string) (message.Subscriber, <-chan *message.Message) {
	t.Helper()
	s, err := b.Subscriber()
	require.NoError(t, err)
	messages, err := s.Subscribe(context.WithoutCancel(t.Context()), topic)
	require.NoError(t, err)
	return s, messages
}

// Messages is Subscribe for who needs no subscriber.
func Messages(t testing.TB, b broker.Broker, topic string) <-chan *message.Message {
	t.Helper()
	_, messages := Subscribe(t, b, topic)
	return messages
}

// Receive gives the next message, neither acked nor nacked.
func Receive(t testing.TB, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, open := <-messages:
		require.True(t, open, "the subscription ended")
		return msg
	case <-time.After(Patience):
		require.FailNow(t, "no message")
		return nil
	}
}

// ReceiveAll acks the next messages, and gives their payloads.
func ReceiveAll(t testing.TB, messages <-chan *message.Message, n int) (payloads []string) {
	t.Helper()
	for range n {
		msg := Receive(t, messages)
		require.True(t, msg.Ack())
		payloads = append(payloads, string(msg.Payload))
	}
	return payloads
}

// Silent gives the address of a server that says nothing, and closes heard when it has heard something.
func Silent(t testing.TB) (address string, heard <-chan struct{}) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	first := make(chan struct{})
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return // the test has ended
		}
		_, _ = conn.Read(make([]byte, 1))
		close(first)
		<-t.Context().Done()
		_ = conn.Close()
	}()
	return listener.Addr().String(), first
}

// ClosedPort gives an address where nobody listens.
func ClosedPort(t testing.TB) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}
