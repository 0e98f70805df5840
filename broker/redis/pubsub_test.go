package redis_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/redis"
)

func TestUniversalSuite(t *testing.T) {
	url := server(t) + "?nack_delay=1ms"
	pubSub := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		b := open(t, url, group)
		s, err := b.Subscriber()
		require.NoError(t, err)
		return b.Publisher(), s
	}
	alone := func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		return pubSub(t, watermill.NewUUID())
	}
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups: true, Persistent: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true,
		NewSubscriberReceivesOldMessages: true,
		ForceShort:                       true, // in full it has 50 groups get 5,000 messages each
	}, alone, pubSub)
}

func TestMessageArrivesAsItWas(t *testing.T) {
	brokertest.ArrivesAsItWas(t, open(t, server(t), "g"), topic())
}

func TestGroups(t *testing.T) {
	url, name := server(t), topic()
	publish := open(t, url, "")
	for _, payload := range []string{"1", "2", "3", "4"} {
		require.NoError(t, batch(t, publish, outgoing(name, "", payload))[0])
	}
	_, emails := subscribe(t, open(t, url, "emails"), name)
	require.Equal(t, []string{"1", "2", "3", "4"}, receiveAll(t, emails, 4), "a new group begins with the oldest")

	bills := func() <-chan *message.Message { return brokertest.Messages(t, open(t, url, "bills"), name) }
	brokertest.GroupShares(t, bills(), bills(), "1", "2", "3", "4")
}

func TestNack(t *testing.T) {
	brokertest.NackedComesAgain(t, open(t, server(t)+"?nack_delay=1ms", "g"), topic())
}

func TestClosedSubscriptionHandsBackInOrder(t *testing.T) {
	brokertest.ClosedGivesBackInOrder(t, open(t, server(t), "g"), topic())
}

func TestAckJustBeforeCloseCounts(t *testing.T) {
	url, name := server(t), topic()
	b, c := open(t, url, "g"), raw(t, url)
	require.NoError(t, batch(t, b, outgoing(name, "", "1"))[0])
	s, messages := subscribe(t, b, name)
	require.True(t, receive(t, messages).Ack())
	require.NoError(t, s.Close())
	pending, err := c.XPending(t.Context(), name, "g").Result()
	require.NoError(t, err)
	require.Zero(t, pending.Count)
	consumers, err := c.XInfoConsumers(t.Context(), name, "g").Result()
	require.NoError(t, err)
	require.Empty(t, consumers, "a consumer that has nothing leaves no name")
}

// A consumer that died is one that reads and never comes back.
func TestDeadConsumersMessagesComeAgain(t *testing.T) {
	url, name := server(t), topic()
	b, c := open(t, url+"?max_idle=1s&claim_interval=100ms", "g"), raw(t, url)
	s, err := b.Subscriber()
	require.NoError(t, err)
	require.NoError(t, s.(message.SubscribeInitializer).SubscribeInitialize(name))
	require.Equal(t, []error{nil, nil}, batch(t, b, outgoing(name, "", "1"), outgoing(name, "", "2")))
	require.NoError(t, c.XReadGroup(t.Context(), &client.XReadGroupArgs{Group: "g", Consumer: "dead", Streams: []string{name, ">"}, Count: 1}).Err())

	messages, err := s.Subscribe(t.Context(), name)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"1", "2"}, receiveAll(t, messages, 2))
}

func TestSlowHandlerKeepsItsMessage(t *testing.T) {
	url, name := server(t)+"?max_idle=2s&claim_interval=50ms", topic()
	b := open(t, url, "g")
	require.NoError(t, batch(t, b, outgoing(name, "", "1"))[0])
	_, slow := subscribe(t, b, name)
	msg := receive(t, slow)
	_, other := subscribe(t, open(t, url, "g"), name)
	select { // more than twice max_idle: nothing to wait for but the time itself
	case <-other:
		require.FailNow(t, "somebody else got it")
	case <-slow:
		require.FailNow(t, "it came twice")
	case <-time.After(5 * time.Second):
	}
	require.True(t, msg.Ack())
}

func TestVanishedGroupIsMadeAgain(t *testing.T) {
	url, name := server(t), topic()
	b, c := open(t, url, "g"), raw(t, url)
	_, messages := subscribe(t, b, name)
	require.NoError(t, batch(t, b, outgoing(name, "", "1"))[0])
	require.Equal(t, []string{"1"}, receiveAll(t, messages, 1))
	require.NoError(t, c.Del(t.Context(), name).Err())
	require.NoError(t, batch(t, b, outgoing(name, "", "2"))[0])
	require.Equal(t, []string{"2"}, receiveAll(t, messages, 1))
}

func TestForeignEntryEndsNothing(t *testing.T) {
	url, name := server(t), topic()
	b, c := open(t, url, "g"), raw(t, url)
	_, messages := subscribe(t, b, name)
	require.NoError(t, c.XAdd(t.Context(), &client.XAddArgs{Stream: name, Values: []string{"temperature", "21"}}).Err())
	require.NoError(t, batch(t, b, outgoing(name, "", "1"))[0])
	foreign := receive(t, messages)
	require.Empty(t, foreign.UUID)
	require.Equal(t, message.Metadata{"temperature": "21"}, foreign.Metadata)
	require.True(t, foreign.Ack())
	require.Equal(t, []string{"1"}, receiveAll(t, messages, 1))
}

func TestSubscriberNeedsAGroupAndAnOpenBroker(t *testing.T) {
	brokertest.SubscriberNeedsAGroupAndAnOpenBroker(t, redis.Driver{}, server(t))
}
