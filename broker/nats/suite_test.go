package nats_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/services"
)

// Watermill's own tests of what a Publisher and a Subscriber have to be.
func TestWatermillsSuite(t *testing.T) {
	url, _ := services.NATS(t)
	withGroup := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		b := open(t, url, "nack_delay=1ms", group) // it nacks 300 times in a row
		subscriber, err := b.Subscriber()
		require.NoError(t, err)
		return b.Publisher(), subscriber
	}
	alone := func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		return withGroup(t, "test")
	}
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups: true, ExactlyOnceDelivery: false, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true, Persistent: true,
		ForceShort: true, // its long form is about load
	}, alone, withGroup)
}
