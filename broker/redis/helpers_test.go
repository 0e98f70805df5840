package redis_test

import (
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/redis"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
)

const patience = brokertest.Patience

var (
	batch, outgoing     = brokertest.PublishBatch, brokertest.Outgoing
	subscribe           = brokertest.Subscribe
	receive, receiveAll = brokertest.Receive, brokertest.ReceiveAll
)

// server gives the URL of the real Redis, or of a stand-in.
func server(t testing.TB) string {
	t.Helper()
	url, _ := services.Redis(t)
	return url
}

func open(t testing.TB, url, group string) broker.Broker {
	t.Helper()
	return brokertest.Open(t, redis.Driver{}, url, group)
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
