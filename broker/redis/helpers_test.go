package redis_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/redis"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
)

const patience = 30 * time.Second

// server gives the URL of the real Redis, or of a stand-in.
func server(t testing.TB) string {
	t.Helper()
	url, _ := services.Redis(t)
	return url
}

func open(t testing.TB, url, group string) broker.Broker {
	t.Helper()
	b, err := mux().Open(t.Context(), url, broker.Options{Group: group})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// raw gives a client of the same server.
func raw(t testing.TB, url string) *client.Client {
	t.Helper()
	options, err := client.ParseURL(strings.SplitN(url, "?", 2)[0])
	require.NoError(t, err)
	c := client.NewClient(options)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
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

// inStream gives the payloads that a stream has, in order.
func inStream(t testing.TB, c *client.Client, topic string) (payloads []string) {
	t.Helper()
	entries, err := c.XRange(t.Context(), topic, "-", "+").Result()
	require.NoError(t, err)
	for _, entry := range entries {
		payloads = append(payloads, entry.Values["payload"].(string))
	}
	return payloads
}

func mux() *broker.Mux { return broker.NewMux(redis.Driver{}) }

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
