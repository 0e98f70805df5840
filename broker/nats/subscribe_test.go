package nats_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/nats"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestEachGroupGetsAllFromTheOldestOnAndItsSubscribersShare(t *testing.T) {
	url, _ := services.NATS(t)
	topic := testdb.Random("groups.")
	publisher := open(t, url, "", "")
	for n := range 20 {
		require.NoError(t, publisher.Publisher().Publish(topic, outgoing(topic, "", fmt.Sprint(n)).Message))
	}
	for _, group := range []string{"one", "two.with dots"} {
		b := open(t, url, "", group)
		first, second := subscribe(t, b, topic), subscribe(t, b, topic)
		for n := range 20 {
			var msg *message.Message
			select {
			case msg = <-first:
			case msg = <-second:
			case <-time.After(patience):
				t.Fatal("waited in vain")
			}
			require.Equal(t, fmt.Sprint(n), string(msg.Payload), "in order, although two subscribers share")
			msg.Ack()
		}
	}
	_, err := open(t, url, "", "").Subscriber()
	require.ErrorIs(t, err, broker.ErrNoGroup)
}

func TestANackedMessageComesAgainBeforeTheOthers(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "nack_delay=50ms", "group"), testdb.Random("nack-")
	require.NoError(t, b.Publisher().Publish(topic, outgoing(topic, "", "1").Message, outgoing(topic, "", "2").Message))
	first, second := subscribe(t, b, topic), subscribe(t, b, topic)
	for range 5 {
		var msg *message.Message
		select {
		case msg = <-first:
		case msg = <-second:
		}
		require.Equal(t, "1", string(msg.Payload))
		msg.Nack()
	}
}

// The message in hand would come to the others after an hour only, if it were not handed back; and it would come to them
// long before its handler is done, if nothing kept it.
func TestAMessageStaysWithASubscriberThatLivesAndGoesOnWhenItCloses(t *testing.T) {
	url, _ := services.NATS(t)
	topic := testdb.Random("close-")
	slow := open(t, url, "ack_wait=1s", "group")
	require.NoError(t, slow.Publisher().Publish(topic, outgoing(topic, "", "1").Message, outgoing(topic, "", "2").Message))
	messages := subscribe(t, slow, topic)
	msg := receive(t, messages)
	other := subscribe(t, slow, topic)
	select {
	case <-other:
		t.Fatal("it was given to two at the same time")
	case <-time.After(3 * time.Second):
	}
	require.NoError(t, msg.Context().Err())

	patient := open(t, url, "ack_wait=1h", "group")
	waiting := subscribe(t, patient, topic)
	require.NoError(t, slow.Close())
	require.Error(t, msg.Context().Err())
	_, open := <-messages
	require.False(t, open)
	again := receive(t, waiting)
	require.Equal(t, msg.UUID, again.UUID)
	again.Ack()
	require.Equal(t, "2", string(receive(t, waiting).Payload))
}

func TestMoreInHandMeansMoreAtATime(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "max_ack_pending=2", "group"), testdb.Random("two-")
	require.NoError(t, b.Publisher().Publish(topic, outgoing(topic, "", "1").Message, outgoing(topic, "", "2").Message))
	first, second := subscribe(t, b, topic), subscribe(t, b, topic)
	receive(t, first)
	receive(t, second)
}

func TestAConsumerThatIsDeletedIsMadeAgain(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "", "group"), testdb.Random("deleted-")
	messages := subscribe(t, b, topic)
	require.NoError(t, client(t, url).DeleteConsumer(t.Context(), topic, "group__"+topic))
	require.NoError(t, b.Publisher().Publish(topic, outgoing(topic, "", "1").Message))
	require.Equal(t, "1", string(receive(t, messages).Payload))
}

func TestSettingsOfAConsumerChangeAndItsFilterDoesNot(t *testing.T) {
	url, _ := services.NATS(t)
	js, topic := client(t, url), testdb.Random("changed-")
	subscribe(t, open(t, url, "", "group"), topic)
	subscribe(t, open(t, url, "ack_wait=1m&max_ack_pending=7", "group"), topic)
	consumer, err := js.Consumer(t.Context(), topic, "group__"+topic)
	require.NoError(t, err)
	require.Equal(t, time.Minute, consumer.CachedInfo().Config.AckWait)
	require.Equal(t, 7, consumer.CachedInfo().Config.MaxAckPending)

	_, err = js.CreateConsumer(t.Context(), topic, jetstream.ConsumerConfig{Durable: "taken__" + topic, AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	subscriber, err := open(t, url, "", "taken").Subscriber()
	require.NoError(t, err)
	_, err = subscriber.Subscribe(t.Context(), topic)
	var group *nats.GroupError
	require.ErrorAs(t, err, &group)
}

func TestTheStreamIsThereAfterSubscribeInitialize(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "", "group"), testdb.Random("made-")
	subscriber, err := b.Subscriber()
	require.NoError(t, err)
	require.NoError(t, subscriber.(message.SubscribeInitializer).SubscribeInitialize(topic))
	require.NoError(t, publishBatch(t, open(t, url, "auto_provision=false", ""), outgoing(topic, "", "x"))[0])
	require.NoError(t, b.Close())
	_, err = subscriber.Subscribe(t.Context(), topic)
	require.ErrorIs(t, err, broker.ErrClosed)
	_, err = b.Subscriber()
	require.ErrorIs(t, err, broker.ErrClosed)
}
