package gochannel_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	suite "github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/gochannel"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

const patience = brokertest.Patience

var subscribe, next, read = brokertest.Messages, brokertest.Receive, brokertest.ReceiveAll

func open(t testing.TB, name, group string) broker.Broker {
	t.Helper()
	return brokertest.Open(t, gochannel.Driver{}, "gochannel://"+name, group)
}

func publish(t testing.TB, b broker.Broker, topic, key string, payloads ...string) {
	t.Helper()
	for _, payload := range payloads {
		msg := message.NewMessage(watermill.NewUUID(), []byte(payload))
		outbox.SetKey(msg, key)
		require.NoError(t, b.Publisher().Publish(topic, msg))
	}
}

func TestUniversalSuite(t *testing.T) {
	name := testdb.Random("suite-")
	pair := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		b, err := broker.NewMux(gochannel.Driver{}).Open(t.Context(), "gochannel://"+name, broker.Options{Group: group})
		require.NoError(t, err)
		s, err := b.Subscriber()
		require.NoError(t, err)
		return b.Publisher(), s
	}
	suite.TestPubSub(t, suite.Features{
		ConsumerGroups: true, ExactlyOnceDelivery: true, GuaranteedOrder: false, GuaranteedOrderWithSingleSubscriber: true, Persistent: true,
	}, func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		return pair(t, "one")
	}, pair)
}

func TestWhatIsPublishedBeforeAGroupIsThereIsKeptAndGivenToEachGroup(t *testing.T) {
	name := testdb.Random("")
	publish(t, open(t, name, ""), "topic", "", "1", "2")
	a := subscribe(t, open(t, name, "a"), "topic")
	require.Equal(t, []string{"1"}, read(t, a, 1))
	next(t, a) // so its ack was heard: 1 is let go, for every group had it
	b := subscribe(t, open(t, name, "b"), "topic")
	publish(t, open(t, name, ""), "topic", "", "3")
	require.Equal(t, []string{"2", "3"}, read(t, b, 2))
}

func TestAGroupGetsWhatWasPublishedWhileNoneOfItsSubscribersWasThere(t *testing.T) {
	name := testdb.Random("")
	for _, group := range []string{"a", "b"} {
		b := open(t, name, group)
		s, err := b.Subscriber()
		require.NoError(t, err)
		require.NoError(t, s.(message.SubscribeInitializer).SubscribeInitialize("topic"))
		require.NoError(t, b.Close())
	}
	publish(t, open(t, name, ""), "topic", "", "1", "2")
	for _, group := range []string{"a", "b"} {
		require.Equal(t, []string{"1", "2"}, read(t, subscribe(t, open(t, name, group), "topic"), 2))
	}
}

func TestBrokersOfOtherNamesAreOthers(t *testing.T) {
	one, two := testdb.Random(""), testdb.Random("")
	publish(t, open(t, one, ""), "topic", "", "one")
	publish(t, open(t, two, ""), "topic", "", "two")
	require.Equal(t, []string{"two"}, read(t, subscribe(t, open(t, two, "g"), "topic"), 1))
}

func TestANackedMessageComesAgainBeforeLaterOnes(t *testing.T) {
	b := open(t, testdb.Random(""), "g")
	publish(t, b, "topic", "", "1", "2")
	messages := subscribe(t, b, "topic")
	for range 3 {
		msg := next(t, messages)
		require.Equal(t, "1", string(msg.Payload))
		msg.Payload[0] = 'x' // the handler's own
		require.True(t, msg.Nack())
	}
	require.Equal(t, []string{"1", "2"}, read(t, messages, 2))
}

func TestWhatASubscriberDidNotAckGoesToAnotherOfTheGroup(t *testing.T) {
	name := testdb.Random("")
	first, second := open(t, name, "g"), open(t, name, "g")
	publish(t, first, "topic", "k", "1", "2")
	msg := next(t, subscribe(t, first, "topic"))
	require.Equal(t, "1", string(msg.Payload))
	messages := subscribe(t, second, "topic")
	require.NoError(t, first.Close())
	<-msg.Context().Done()
	require.Equal(t, []string{"1", "2"}, read(t, messages, 2))
}

func TestAGroupSharesButAKeyIsInOneHandAtATimeAndInOrder(t *testing.T) {
	const subscribers, keys, each = 8, 5, 200
	name := testdb.Random("")
	var (
		mu     sync.Mutex
		inHand = map[string]bool{}
		got    = map[string][]string{}
		wrong  []string
		all    = make(chan struct{})
		total  int
	)
	handle := func(msg *message.Message, nack bool) {
		key := outbox.Key(msg)
		mu.Lock()
		defer mu.Unlock()
		inHand[key] = false
		if nack {
			msg.Nack()
			return
		}
		got[key] = append(got[key], string(msg.Payload))
		if total++; total == keys*each {
			close(all)
		}
		msg.Ack()
	}
	for s := range subscribers {
		messages := subscribe(t, open(t, name, "g"), "topic")
		go func() {
			n := 0
			for msg := range messages {
				mu.Lock()
				if inHand[outbox.Key(msg)] {
					wrong = append(wrong, string(msg.Payload))
				}
				inHand[outbox.Key(msg)] = true
				mu.Unlock()
				n++
				handle(msg, (n+s)%50 == 0)
			}
		}()
	}
	b := open(t, name, "")
	for n := range each {
		for key := range keys {
			publish(t, b, "topic", fmt.Sprint(key), fmt.Sprintf("%04d", n))
		}
	}
	select {
	case <-all:
	case <-time.After(patience):
		require.FailNow(t, "not all came")
	}
	mu.Lock()
	defer mu.Unlock()
	require.Empty(t, wrong)
	for _, payloads := range got {
		require.Len(t, payloads, each)
		require.IsIncreasing(t, payloads)
	}
}

func TestATopicThatIsFullTakesNoMoreUntilAGroupTakesSome(t *testing.T) {
	b := open(t, testdb.Random("")+"?max_messages=2", "g")
	publish(t, b, "topic", "", "1", "2")
	err := b.Publisher().Publish("topic", message.NewMessage("3", nil))
	require.ErrorIs(t, err, gochannel.ErrFull)
	require.ErrorContains(t, err, `topic "topic" keeps 2 messages`)
	require.Equal(t, outbox.FailureOutage, b.Classify(err))
	require.NoError(t, b.Publisher().Publish("other", message.NewMessage("3", nil)))

	messages := subscribe(t, b, "topic")
	read(t, messages, 1)
	next(t, messages) // the ack of the one before has been heard
	publish(t, b, "topic", "", "3")
}

func TestUUIDMetadataAndPayloadArriveAsTheyWere(t *testing.T) {
	b := open(t, testdb.Random(""), "g")
	for _, payload := range [][]byte{nil, {}, {0, 0xff, '\n'}} {
		msg := message.NewMessage("id", payload)
		msg.Metadata.Set("name", "value\x00")
		require.NoError(t, b.Publisher().Publish("topic", msg))
	}
	messages := subscribe(t, b, "topic")
	for _, payload := range [][]byte{nil, {}, {0, 0xff, '\n'}} {
		msg := next(t, messages)
		require.Equal(t, message.Payload(payload), msg.Payload)
		require.Equal(t, "id", msg.UUID)
		require.Equal(t, message.Metadata{"name": "value\x00"}, msg.Metadata)
		msg.Ack()
	}
}

func TestAClosedOneRefuses(t *testing.T) {
	b := open(t, testdb.Random(""), "g")
	require.NoError(t, b.Ping(t.Context()))
	s, err := b.Subscriber()
	require.NoError(t, err)
	messages, err := s.Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	require.NoError(t, b.Close())
	_, ok := <-messages
	require.False(t, ok)
	_, err = s.Subscribe(t.Context(), "topic")
	require.ErrorIs(t, err, broker.ErrClosed)
	_, err = b.Subscriber()
	require.ErrorIs(t, err, broker.ErrClosed)
	require.ErrorIs(t, b.Ping(t.Context()), broker.ErrClosed)
	err = b.Publisher().Publish("topic", message.NewMessage("1", nil))
	require.ErrorIs(t, err, broker.ErrClosed)
	require.Equal(t, outbox.FailureOutage, b.Classify(err))
}

func TestURLs(t *testing.T) {
	brokertest.RefusesURLs(t, gochannel.Driver{}, map[string]string{
		"gochannel://a,b":              "host",
		"gochannel://a/b":              "path",
		"gochannel://a?max_messages=0": "max_messages",
		"gochannel://a?max_mesages=1":  "max_mesages",
	})
	_, err := open(t, "", "").Subscriber()
	require.ErrorIs(t, err, broker.ErrNoGroup)
}
