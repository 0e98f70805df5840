package amqp_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/amqp"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
)

const patience = brokertest.Patience

var (
	batch, outgoing     = brokertest.PublishBatch, brokertest.Outgoing
	subscribe           = brokertest.Subscribe
	receive, receiveAll = brokertest.Receive, brokertest.ReceiveAll
)

// onServer runs a test at the real RabbitMQ, for which there is no stand-in: not at all where there is none.
func onServer(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	if url, isReal := services.AMQP(t); isReal {
		test(t, url)
	}
}

func open(t testing.TB, url, group string) broker.Broker {
	t.Helper()
	return brokertest.Open(t, amqp.Driver{}, url, group)
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
