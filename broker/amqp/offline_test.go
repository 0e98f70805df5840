package amqp_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker/amqp"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
)

func TestBatchReturnsSoonAfterItsContext(t *testing.T) {
	brokertest.BatchReturnsSoonAfterItsContext(t, amqp.Driver{}, "amqp")
}

func TestNobodyListens(t *testing.T) {
	const password = "pa55word"
	url := "amqp://somebody:" + password + "@" + brokertest.ClosedPort(t) + "," + brokertest.ClosedPort(t)
	brokertest.NobodyListens(t, amqp.Driver{}, url, password, "amqp: connecting: ")
	s, err := open(t, url, "g").Subscriber()
	require.NoError(t, err)
	require.Error(t, s.(message.SubscribeInitializer).SubscribeInitialize("t"))
}

func TestURL(t *testing.T) {
	brokertest.RefusesURLs(t, amqp.Driver{}, map[string]string{
		"amqp://localhost:x:y":            "host",
		"amqp://localhost?unrouted=lose":  "unrouted",
		"amqp://localhost?queue_type=x":   "queue_type",
		"amqp://localhost?prefetch=0":     "prefetch",
		"amqp://localhost?prefetch=66000": "prefetch",
		"amqp://localhost?group=g":        "group",
	})
}
