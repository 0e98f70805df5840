package amqp_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/amqp"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
)

const patience = 30 * time.Second

// onServer runs a test at the real RabbitMQ, for which there is no stand-in: not at all where there is none.
func onServer(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	if url, isReal := services.AMQP(t); isReal {
		test(t, url)
	}
}

func open(t testing.TB, url, group string) broker.Broker {
	t.Helper()
	b, err := broker.NewMux(amqp.Driver{}).Open(t.Context(), url, broker.Options{Group: group})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// raw gives a channel of the same server.
func raw(t testing.TB, url string) *amqp091.Channel {
	t.Helper()
	conn, err := amqp091.Dial(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	c, err := conn.Channel()
	require.NoError(t, err)
	return c
}

func topic() string { return "test-" + watermill.NewULID() }

func batch(t testing.TB, b broker.Broker, messages ...outbox.Outgoing) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, messages)
}

func outgoing(topic, key, payload string) outbox.Outgoing {
	msg := message.NewMessage(watermill.NewUUID(), []byte(payload))
	outbox.SetKey(msg, key)
	return outbox.Outgoing{Topic: topic, Key: key, Message: msg}
}

func subscribe(t testing.TB, b broker.Broker, topic string) (message.Subscriber, <-chan *message.Message) {
	t.Helper()
	s, err := b.Subscriber()
	require.NoError(t, err)
	messages, err := s.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	return s, messages
}

func receive(t testing.TB, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg := <-messages:
		require.NotNil(t, msg)
		return msg
	case <-time.After(patience):
		require.FailNow(t, "no message")
		return nil
	}
}

func receiveAll(t testing.TB, messages <-chan *message.Message, n int) (payloads []string) {
	t.Helper()
	for range n {
		msg := receive(t, messages)
		require.True(t, msg.Ack())
		payloads = append(payloads, string(msg.Payload))
	}
	return payloads
}

// silent gives the address of a server that says nothing, and closes heard when it has heard something.
func silent(t testing.TB) (address string, heard <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
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

// refusing gives an address where nobody listens.
func refusing(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// inQueue takes a queue's messages, in order.
func inQueue(t testing.TB, c *amqp091.Channel, queue string) (payloads []string) {
	t.Helper()
	for {
		d, ok, err := c.Get(queue, true)
		require.NoError(t, err)
		if !ok {
			return payloads
		}
		payloads = append(payloads, string(d.Body))
	}
}
