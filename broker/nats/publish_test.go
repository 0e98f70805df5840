package nats_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/nats"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestABatchKeepsEachKeyInOrder(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "", ""), testdb.Random("orders.created-")
	var batch []outbox.Outgoing
	for n := range 30 {
		for key := range 5 {
			batch = append(batch, outgoing(topic, fmt.Sprint("k", key), fmt.Sprint(n)))
		}
		batch = append(batch, outgoing(topic, "", "u"))
	}
	for _, err := range publishBatch(t, b, batch...) {
		require.NoError(t, err)
	}
	next := map[string]int{}
	for _, m := range stored(t, url, topic) {
		key := m.Header.Get(outbox.KeyMetadata)
		if key != "" {
			require.Equal(t, fmt.Sprint(next[key]), string(m.Data))
		}
		next[key]++
	}
	require.Equal(t, map[string]int{"k0": 30, "k1": 30, "k2": 30, "k3": 30, "k4": 30, "": 30}, next)
}

// The server refuses the message in the middle, not the client, so that those behind it would be stored.
func TestNothingOvertakesWhatTheStreamRefuses(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "", ""), testdb.Random("small-")
	_, err := client(t, url).CreateStream(t.Context(), jetstream.StreamConfig{Name: topic, Subjects: []string{topic}, MaxMsgSize: 1000})
	require.NoError(t, err)
	var batch []outbox.Outgoing
	for n := range 20 {
		payload := fmt.Sprint(n)
		if n == 10 {
			payload = strings.Repeat("x", 2000)
		}
		batch = append(batch, outgoing(topic, "hot", payload), outgoing(topic, "other", fmt.Sprint(n)), outgoing(topic, "", "u"))
	}
	for i, err := range publishBatch(t, b, batch...) {
		switch n := i / 3; {
		case i%3 != 0 || n < 10:
			require.NoError(t, err)
		case n == 10:
			require.Equal(t, outbox.FailurePermanent, b.Classify(err), err)
		default:
			require.ErrorIs(t, err, outbox.ErrHeldBack)
		}
	}
	hot := 0
	for _, m := range stored(t, url, topic) {
		if m.Header.Get(outbox.KeyMetadata) == "hot" {
			require.Equal(t, fmt.Sprint(hot), string(m.Data))
			hot++
		}
	}
	require.Equal(t, 10, hot)
	require.Len(t, stored(t, url, topic), 10+20+20)
}

func TestWhatTheServerCantTakeIsNotSent(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "", ""), testdb.Random("large-")
	large, small := outgoing(topic, "", strings.Repeat("x", 1<<20)), outgoing(topic, "", "x")
	verdicts := publishBatch(t, b, large, small)
	var tooLarge *nats.TooLargeError
	require.ErrorAs(t, verdicts[0], &tooLarge)
	require.Equal(t, int64(1<<20), tooLarge.Limit)
	require.Greater(t, tooLarge.Bytes, tooLarge.Limit)
	require.Equal(t, outbox.FailurePermanent, b.Classify(verdicts[0]))
	require.NoError(t, verdicts[1])
	require.ErrorAs(t, b.Publisher().Publish(topic, large.Message), &tooLarge)

	// One byte above the limit is not sent, and the limit is: it is counted as the server counts.
	large.Message.Payload = large.Message.Payload[tooLarge.Bytes-tooLarge.Limit-1:]
	require.ErrorAs(t, b.Publisher().Publish(topic, large.Message), &tooLarge)
	require.Equal(t, tooLarge.Limit+1, tooLarge.Bytes)
	large.Message.Payload = large.Message.Payload[1:]
	require.NoError(t, b.Publisher().Publish(topic, large.Message))
	require.Len(t, stored(t, url, topic), 2)

	headers := outgoing(topic, "", "x")
	headers.Message.Metadata.Set("long", strings.Repeat("x", 1<<16))
	require.Equal(t, outbox.FailurePermanent, b.Classify(publishBatch(t, b, headers)[0]), "more headers than a stream takes")
}

func TestDuplicates(t *testing.T) {
	url, _ := services.NATS(t)
	prefix := testdb.Random("all-")
	_, err := client(t, url).CreateStream(t.Context(), jetstream.StreamConfig{Name: prefix, Subjects: []string{prefix + ".>"}})
	require.NoError(t, err)
	b := open(t, url, "", "")
	one, two := prefix+".one", prefix+".two"
	msg := message.NewMessage("uuid", []byte("payload"))
	publish := func(topic string, msg *message.Message) {
		t.Helper()
		require.NoError(t, b.Publisher().Publish(topic, msg))
		require.NoError(t, publishBatch(t, b, outbox.Outgoing{Topic: topic, Message: msg})[0])
	}
	publish(one, msg)
	require.Len(t, stored(t, url, one), 1, "published twice, stored once")
	publish(two, msg)
	require.Len(t, stored(t, url, two), 1, "another topic of the same stream")
	again := msg.Copy()
	again.Metadata.Set("attempt", "2")
	publish(one, again)
	require.Len(t, stored(t, url, one), 2, "a consumer's dead letter that is sent again")
	publish(one, message.NewMessage("uuid", []byte("another payload")))
	require.Len(t, stored(t, url, one), 3)
	publish(one, message.NewMessage("", []byte("payload")))
	require.Len(t, stored(t, url, one), 5, "without a UUID it has no identity")
}

func TestPublishesFindAnExistingStreamAndMakeAMissingOne(t *testing.T) {
	url, _ := services.NATS(t)
	js := client(t, url)
	b := open(t, url, "max_age=1h&duplicate_window=1m", "")
	topic := testdb.Random("plain-")
	require.NoError(t, publishBatch(t, b, outgoing(topic, "", "x"))[0])
	stream, err := js.Stream(t.Context(), topic)
	require.NoError(t, err, "as watermill-nats calls it")
	require.Equal(t, jetstream.FileStorage, stream.CachedInfo().Config.Storage)
	require.Equal(t, "1h0m0s", stream.CachedInfo().Config.MaxAge.String())
	require.Equal(t, "1m0s", stream.CachedInfo().Config.Duplicates.String())

	// Names that could be mistaken for one another have streams of their own.
	verdicts := publishBatch(t, b, outgoing(topic+".a", "", "x"), outgoing(topic+"_a", "", "x"), outgoing(topic+"/a", "", "x"), outgoing(topic+"é", "", "x"))
	require.Equal(t, make([]error, 4), verdicts)
	for _, name := range []string{".a", "_a", "/a", "é"} {
		require.Len(t, stored(t, url, topic+name), 1)
	}

	// A stream that is deleted while it is known comes back with the next try.
	require.NoError(t, js.DeleteStream(t.Context(), topic))
	verdict := publishBatch(t, b, outgoing(topic, "", "x"))[0]
	require.ErrorIs(t, verdict, jetstream.ErrNoStreamResponse)
	require.Equal(t, outbox.FailureUnknown, b.Classify(verdict))
	require.NoError(t, publishBatch(t, b, outgoing(topic, "", "x"))[0])
}

func TestWithoutProvisioningAnUnknownTopicIsPermanentAfterAWhile(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "auto_provision=false", ""), testdb.Random("unknown-")
	var unknown *nats.UnknownTopicError
	require.ErrorAs(t, publishBatch(t, b, outgoing(topic, "", "x"))[0], &unknown)
	require.Equal(t, outbox.FailureOfMessage, b.Classify(unknown), "the server may just be starting")
	require.Eventually(t, func() bool {
		err := b.Publisher().Publish(topic, outgoing(topic, "", "x").Message)
		return b.Classify(err) == outbox.FailurePermanent
	}, patience, tick)
	_, err := client(t, url).CreateStream(t.Context(), jetstream.StreamConfig{Name: topic, Subjects: []string{topic}})
	require.NoError(t, err)
	require.NoError(t, publishBatch(t, b, outgoing(topic, "", "x"))[0])
}

func TestInvalidTopics(t *testing.T) {
	url, _ := services.NATS(t)
	b := open(t, url, "", "group")
	for _, topic := range []string{
		"", "a b", "a\nb", "*", "a.*", "a.>", ".a", "a.", "a..b", "$JS.API.STREAM.PURGE.a", "_INBOX.a", "a\xff", strings.Repeat("x", 256),
	} {
		var invalid *nats.InvalidTopicError
		err := publishBatch(t, b, outgoing(topic, "", "x"))[0]
		require.ErrorAs(t, err, &invalid, topic)
		require.Equal(t, outbox.FailurePermanent, b.Classify(fmt.Errorf("wrapped: %w", err)))
		subscriber, err := b.Subscriber()
		require.NoError(t, err)
		_, err = subscriber.Subscribe(t.Context(), topic)
		require.ErrorAs(t, err, &invalid, topic)
	}
	require.NoError(t, publishBatch(t, b, outgoing(testdb.Random(strings.Repeat("é", 100)), "", "x"))[0])
}

func TestPublishingRacesClosing(t *testing.T) {
	url, _ := services.NATS(t)
	topic := testdb.Random("race-")
	for range 5 {
		b := open(t, url, "", "")
		require.NoError(t, publishBatch(t, b, outgoing(topic, "", "x"))[0])
		var publishing sync.WaitGroup
		for n := range 8 {
			publishing.Go(func() {
				for {
					err := b.Publisher().Publish(topic, outgoing(topic, "", "x").Message)
					if n%2 == 0 {
						err = publishBatch(t, b, outgoing(topic, "k", "x"), outgoing(topic, "k", "y"))[0]
					}
					if err != nil {
						if b.Classify(err) != outbox.FailureOutage {
							t.Errorf("unexpected: %v", err)
						}
						return
					}
				}
			})
		}
		require.NoError(t, b.Close())
		publishing.Wait()
		require.ErrorIs(t, b.Publisher().Publish(topic, outgoing(topic, "", "x").Message), broker.ErrClosed)
		require.ErrorIs(t, publishBatch(t, b, outgoing(topic, "", "x"))[0], broker.ErrClosed)
	}
}

func TestPublishingEndsWithItsContext(t *testing.T) {
	url, _ := services.NATS(t)
	b, topic := open(t, url, "", ""), testdb.Random("context-")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	batch := []outbox.Outgoing{outgoing(topic, "k", "1"), outgoing(topic, "k", "2")}
	verdicts := b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, batch)
	require.ErrorIs(t, verdicts[0], context.Canceled)
	require.ErrorIs(t, verdicts[1], outbox.ErrHeldBack)
	require.Equal(t, outbox.FailureOutage, b.Classify(verdicts[0]))
}
