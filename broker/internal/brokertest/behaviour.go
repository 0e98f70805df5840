package brokertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// ArrivesAsItWas publishes what a format may stumble over, and wants it back. The broker is a group's.
func ArrivesAsItWas(t *testing.T, b broker.Broker, topic string) {
	t.Helper()
	msg := message.NewMessage("an id of its own", []byte("\x00\xff\r\n"))
	msg.Metadata.Set("kind", "ünï")
	msg.Metadata.Set("", "without a name")
	require.NoError(t, b.Publisher().Publish(topic, msg, message.NewMessage("nil", nil)))

	messages := Messages(t, b, topic)
	got := Receive(t, messages)
	require.True(t, msg.Equals(got))
	require.True(t, got.Ack())
	got = Receive(t, messages)
	require.Equal(t, "nil", got.UUID)
	require.Empty(t, got.Payload)
	require.Empty(t, got.Metadata)
	require.True(t, got.Ack())
}

// GroupShares wants four messages, by their payloads, from two subscriptions of a group.
func GroupShares(t *testing.T, one, two <-chan *message.Message, want ...string) {
	t.Helper()
	first, second := Receive(t, one), Receive(t, two) // each has one before any is acked
	got := []string{string(first.Payload), string(second.Payload)}
	require.True(t, first.Ack())
	require.True(t, second.Ack())
	for len(got) < len(want) {
		select {
		case msg := <-one:
			got = append(got, string(msg.Payload))
			require.True(t, msg.Ack())
		case msg := <-two:
			got = append(got, string(msg.Payload))
			require.True(t, msg.Ack())
		case <-time.After(Patience):
			require.FailNow(t, "no message")
		}
	}
	require.ElementsMatch(t, want, got, "a group shares")
}

// NackedComesAgain wants a nacked message again, before the next of its key. The broker is a group's, without long delays.
func NackedComesAgain(t *testing.T, b broker.Broker, topic string) {
	t.Helper()
	require.Equal(t, []error{nil, nil}, PublishBatch(t, b, Outgoing(topic, "k", "1"), Outgoing(topic, "k", "2")))
	messages := Messages(t, b, topic)
	for range 3 {
		msg := Receive(t, messages)
		require.Equal(t, "1", string(msg.Payload))
		require.True(t, msg.Nack())
	}
	require.Equal(t, []string{"1", "2"}, ReceiveAll(t, messages, 2))
}

// ClosedGivesBackInOrder closes a subscription that has messages, and wants them from the next one. The broker is a group's.
func ClosedGivesBackInOrder(t *testing.T, b broker.Broker, topic string) {
	t.Helper()
	require.Equal(t, []error{nil, nil, nil}, PublishBatch(t, b, Outgoing(topic, "k", "1"), Outgoing(topic, "k", "2"), Outgoing(topic, "k", "3")))
	s, messages := Subscribe(t, b, topic)
	require.Equal(t, "1", string(Receive(t, messages).Payload))
	require.NoError(t, s.Close())
	require.Equal(t, []string{"1", "2", "3"}, ReceiveAll(t, Messages(t, b, topic), 3))
}

// SubscriberNeedsAGroupAndAnOpenBroker opens a broker with and without a group; it need not be there.
func SubscriberNeedsAGroupAndAnOpenBroker(t *testing.T, driver broker.Driver, url string) {
	t.Helper()
	b := Open(t, driver, url, "")
	_, err := b.Subscriber()
	require.ErrorIs(t, err, broker.ErrNoGroup)
	b = Open(t, driver, url, "g")
	s, err := b.Subscriber()
	require.NoError(t, err)
	require.NoError(t, b.Close())
	_, err = s.Subscribe(t.Context(), "t")
	require.ErrorIs(t, err, broker.ErrClosed)
	_, err = b.Subscriber()
	require.ErrorIs(t, err, broker.ErrClosed)
	require.ErrorIs(t, b.Publisher().Publish("t", message.NewMessage("1", nil)), broker.ErrClosed)
}

// BatchReturnsSoonAfterItsContext cancels a batch to a server that takes connections and says nothing; the scheme is
// the driver's.
func BatchReturnsSoonAfterItsContext(t *testing.T, driver broker.Driver, scheme string) {
	t.Helper()
	address, heard := Silent(t)
	b := Open(t, driver, scheme+"://"+address+"?timeout=1h", "")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []error)
	go func() {
		done <- b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, []outbox.Outgoing{Outgoing("t", "k", "1"), Outgoing("t", "k", "2")})
	}()
	<-heard
	cancel()
	select {
	case errs := <-done:
		require.ErrorIs(t, errs[0], context.Canceled)
		require.Equal(t, outbox.FailureOutage, b.Classify(errs[0]))
		require.ErrorIs(t, errs[1], outbox.ErrHeldBack)
	case <-time.After(Patience):
		require.FailNow(t, "it does not return")
	}
	require.ErrorIs(t, b.Ping(ctx), context.Canceled)
}

// PublishRacesClose closes a broker while many publish: each ends, with nil or as closed.
func PublishRacesClose(t *testing.T, b broker.Broker, topic string) {
	t.Helper()
	var publishers sync.WaitGroup
	started := make(chan struct{}, 8)
	for range 8 {
		publishers.Go(func() {
			for first := true; ; first = false {
				err := b.Publisher().Publish(topic, message.NewMessage(watermill.NewUUID(), nil))
				if err != nil {
					require.ErrorIs(t, err, broker.ErrClosed)
					require.Equal(t, outbox.FailureOutage, b.Classify(err))
					return
				}
				if first {
					started <- struct{}{}
				}
			}
		})
	}
	for range 8 {
		<-started
	}
	require.NoError(t, b.Close())
	publishers.Wait()
	require.ErrorIs(t, b.Ping(t.Context()), broker.ErrClosed)
}

// NobodyListens wants an outage, and no password, of whatever is tried. The URL has the password, and a closed port.
func NobodyListens(t *testing.T, driver broker.Driver, url, password, ping string) {
	t.Helper()
	b := Open(t, driver, url, "g")
	err := b.Publisher().Publish("t", message.NewMessage("1", nil))
	require.Equal(t, outbox.FailureOutage, b.Classify(err))
	require.NotContains(t, err.Error(), password)
	err = b.Ping(t.Context())
	require.ErrorContains(t, err, ping)
	require.NotContains(t, err.Error(), password)
	s, err := b.Subscriber()
	require.NoError(t, err)
	_, err = s.Subscribe(t.Context(), "t")
	require.Equal(t, outbox.FailureOutage, b.Classify(err))
	require.NotContains(t, err.Error(), password)
}

// RefusesURLs opens URLs, and wants an error that names the part: the values.
func RefusesURLs(t *testing.T, driver broker.Driver, parts map[string]string) {
	t.Helper()
	for url, part := range parts {
		_, err := broker.NewMux(driver).Open(t.Context(), url, broker.Options{})
		var refused *broker.URLError
		require.ErrorAs(t, err, &refused, url)
		require.Equal(t, part, refused.Part, url)
	}
}
