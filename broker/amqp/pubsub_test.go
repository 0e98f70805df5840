package amqp_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker/amqp"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
)

func TestUniversalSuite(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		pubSub := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
			t.Helper()
			b := open(t, url+"?nack_delay=1ms&unrouted=drop", group)
			s, err := b.Subscriber()
			require.NoError(t, err)
			return b.Publisher(), s
		}
		alone := func(t *testing.T) (message.Publisher, message.Subscriber) {
			t.Helper()
			return pubSub(t, "test")
		}
		tests.TestPubSub(t, tests.Features{
			ConsumerGroups: true, Persistent: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true,
			ForceShort: true, // in full it has 50 groups get 5,000 messages each
		}, alone, pubSub)
	})
}

func TestMessageArrivesAsItWas(t *testing.T) {
	onServer(t, func(t *testing.T, url string) { brokertest.ArrivesAsItWas(t, open(t, url+"?groups=g", "g"), topic()) })
}

func TestGroups(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		name := topic()
		publish := open(t, url+"?groups=emails,bills", "")
		for _, payload := range []string{"1", "2", "3", "4"} {
			require.NoError(t, batch(t, publish, outgoing(name, "", payload))[0])
		}
		_, emails := subscribe(t, open(t, url, "emails"), name)
		require.Equal(t, []string{"1", "2", "3", "4"}, receiveAll(t, emails, 4), "messages wait for a group of the URL")

		bills := func() <-chan *message.Message { return brokertest.Messages(t, open(t, url, "bills"), name) }
		brokertest.GroupShares(t, bills(), bills(), "1", "2", "3", "4")
	})
}

func TestNack(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		brokertest.NackedComesAgain(t, open(t, url+"?nack_delay=1ms&groups=g", "g"), topic())
	})
}

func TestClosedSubscriptionGivesBackInOrder(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		brokertest.ClosedGivesBackInOrder(t, open(t, url+"?groups=g&prefetch=2", "g"), topic())
	})
}

func TestAckJustBeforeCloseCounts(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		b, name := open(t, url+"?groups=g", "g"), topic()
		require.NoError(t, batch(t, b, outgoing(name, "", "1"))[0])
		s, messages := subscribe(t, b, name)
		require.True(t, receive(t, messages).Ack())
		require.NoError(t, s.Close())
		queue, err := raw(t, url).QueueDeclarePassive(name+"_g", true, false, false, false, nil)
		require.NoError(t, err)
		require.Zero(t, queue.Messages)
	})
}

func TestSingleActiveConsumerHasThemAll(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		name := topic()
		b := open(t, url+"?groups=g&single=true", "g")
		require.Equal(t, []error{nil, nil, nil}, batch(t, b, outgoing(name, "k", "1"), outgoing(name, "k", "2"), outgoing(name, "k", "3")))
		one, first := subscribe(t, b, name)
		require.Equal(t, []string{"1"}, receiveAll(t, first, 1))
		_, second := subscribe(t, b, name)
		msg := receive(t, first)
		require.Equal(t, "2", string(msg.Payload))
		require.True(t, msg.Ack())
		require.NoError(t, one.Close())
		require.Equal(t, []string{"3"}, receiveAll(t, second, 1))
	})
}

func TestDeletedQueueIsMadeAgain(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		b, name := open(t, url, "g"), topic()
		_, messages := subscribe(t, b, name)
		_, err := raw(t, url).QueueDelete(name+"_g", false, false, false)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return batch(t, b, outgoing(name, "", "1"))[0] == nil }, patience, 10*time.Millisecond)
		require.Equal(t, []string{"1"}, receiveAll(t, messages, 1), "and no empty message before it")
	})
}

func TestForeignMessageEndsNothing(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		b, name := open(t, url, "g"), topic()
		_, messages := subscribe(t, b, name)
		require.NoError(t, raw(t, url).Publish(name, "", false, false, amqp091.Publishing{
			MessageId: "7", Body: []byte("foreign"), Headers: amqp091.Table{"n": int64(3), "x-death": []any{amqp091.Table{"count": int64(1)}}},
		}))
		msg := receive(t, messages)
		require.Equal(t, "7", msg.UUID)
		require.Equal(t, message.Metadata{"n": "3", "x-death": "[map[count:1]]"}, msg.Metadata)
		require.Equal(t, "foreign", string(msg.Payload))
		require.True(t, msg.Ack())
	})
}

func TestWhatIsThereIsUsedAsItIs(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		name, c := topic(), raw(t, url)
		require.NoError(t, c.ExchangeDeclare(name, "topic", true, false, false, false, nil))
		_, err := c.QueueDeclare(name+"_g", true, false, false, false, amqp091.Table{"x-max-length": 100})
		require.NoError(t, err)
		b := open(t, url+"?groups=g", "g")
		require.NoError(t, batch(t, b, outgoing(name, "", "1"))[0])
		_, messages := subscribe(t, b, name)
		require.Equal(t, []string{"1"}, receiveAll(t, messages, 1))
	})
}

func TestUnrouted(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		b, nobody, somebody := open(t, url, "g"), topic(), topic()
		_, messages := subscribe(t, b, somebody)
		errs := batch(t, b, outgoing(nobody, "k", "1"), outgoing(somebody, "", "2"), outgoing(nobody, "", "3"))
		for _, err := range []error{errs[0], errs[2]} {
			var unrouted *amqp.UnroutedError
			require.ErrorAs(t, err, &unrouted)
			require.Equal(t, nobody, unrouted.Topic)
			require.ErrorContains(t, err, "groups=")
		}
		require.NoError(t, errs[1])
		require.Equal(t, []string{"2"}, receiveAll(t, messages, 1))
		require.NoError(t, batch(t, open(t, url+"?unrouted=drop", ""), outgoing(nobody, "", "4"))[0])
	})
}

func TestSubscriberNeedsAGroupAndAnOpenBroker(t *testing.T) {
	brokertest.SubscriberNeedsAGroupAndAnOpenBroker(t, amqp.Driver{}, "amqp://localhost")
}

func TestQuorumQueues(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		url += "?nack_delay=1ms&groups=g&queue_type=quorum"
		t.Run("arrives", func(t *testing.T) { brokertest.ArrivesAsItWas(t, open(t, url, "g"), topic()) })
		t.Run("nacked", func(t *testing.T) { brokertest.NackedComesAgain(t, open(t, url, "g"), topic()) })
		t.Run("given back", func(t *testing.T) { brokertest.ClosedGivesBackInOrder(t, open(t, url, "g"), topic()) })
		t.Run("given back prefetched", func(t *testing.T) { brokertest.ClosedGivesBackInOrder(t, open(t, url+"&prefetch=2", "g"), topic()) })
	})
}
