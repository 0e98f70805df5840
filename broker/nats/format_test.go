package nats_test

import (
	"testing"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestEverythingArrivesAsItWasWritten(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "", "group"), testdb.Random("exact-")
	metadata := message.Metadata{
		"plain": "é ü", "empty": "", "lines": "a\r\nb", "ends": " a ", "Nats-Rollup": "all", "nats-expected-stream": "x",
		"with space": "1", "with:colon": "2", "ümlaut": "3", "": "4", "_watermill_message_uuid": "5", "_watermill_outbox_exact": "6",
	}
	for _, uuid := range []string{"uuid", "", " a\nuuid "} {
		msg := message.NewMessage(uuid, []byte{0, 255, '\r', '\n'})
		msg.Metadata = metadata
		require.NoError(t, b.Publisher().Publish(topic, msg))
	}
	null := message.NewMessage("null", nil)
	require.NoError(t, b.Publisher().Publish(topic, null))
	require.Len(t, stored(t, url, topic), 4, "Nats-Rollup would have removed them")
	messages := subscribe(t, b, topic)
	for _, uuid := range []string{"uuid", "", " a\nuuid "} {
		msg := receive(t, messages)
		require.Equal(t, uuid, msg.UUID)
		require.Equal(t, metadata, msg.Metadata)
		require.Equal(t, []byte{0, 255, '\r', '\n'}, []byte(msg.Payload))
		msg.Ack()
	}
	require.Empty(t, receive(t, messages).Payload)
}

func TestWatermillNATSReadsOursAndWeReadItsOwn(t *testing.T) {
	url, _ := services.NATS(t)
	topic := testdb.Random("shared-")
	b := open(t, url, "", "ours")
	config := wmnats.JetStreamConfig{AutoProvision: true, DurablePrefix: "theirs", TrackMsgId: true}
	publisher, err := wmnats.NewPublisher(wmnats.PublisherConfig{URL: url, JetStream: config}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, publisher.Close()) }()
	subscriber, err := wmnats.NewSubscriber(wmnats.SubscriberConfig{URL: url, JetStream: config}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, subscriber.Close()) }()

	msg := message.NewMessage("ours", []byte("payload"))
	msg.Metadata.Set("name", "value")
	require.NoError(t, b.Publisher().Publish(topic, msg))
	theirs := message.NewMessage("theirs", []byte("payload"))
	theirs.Metadata.Set("name", "value")
	require.NoError(t, publisher.Publish(topic, theirs))
	read, err := subscriber.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	for _, messages := range []<-chan *message.Message{read, subscribe(t, b, topic)} {
		for _, want := range []*message.Message{msg, theirs} {
			got := receive(t, messages)
			require.True(t, got.Equals(want), "%+v", got)
			got.Ack()
		}
	}
}

// What others put into a stream must not stop it: headers that occur twice, orders to the server, no UUID.
func TestForeignMessagesAreReadToo(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "", "group"), testdb.Random("foreign-")
	messages := subscribe(t, b, topic)
	foreign := foreignMessage(topic)
	_, err := client(t, url).PublishMsg(t.Context(), foreign)
	require.NoError(t, err)
	msg := receive(t, messages)
	require.Empty(t, msg.UUID)
	require.Equal(t, message.Metadata{"twice": "a, b"}, msg.Metadata)
	require.Equal(t, "payload", string(msg.Payload))
}
