package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/redis"
)

func TestFormatIsWatermillRedisstreams(t *testing.T) {
	url, theirs, ours := server(t), topic(), topic()
	b, c := open(t, url, "g"), raw(t, url)
	msg := outgoing(ours, "k", "payload")
	require.NoError(t, batch(t, b, msg)[0])
	s, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{Client: c, ConsumerGroup: "theirs", DisableIndefiniteInitialBlock: true}, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	messages, err := s.Subscribe(ctx, ours)
	require.NoError(t, err)
	got := receive(t, messages)
	require.True(t, msg.Message.Equals(got))
	require.True(t, got.Ack())

	p, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: c}, nil)
	require.NoError(t, err)
	require.NoError(t, p.Publish(theirs, msg.Message))
	_, messages = subscribe(t, b, theirs)
	got = receive(t, messages)
	require.True(t, msg.Message.Equals(got))
	require.True(t, got.Ack())
}

// A stream that is no stream refuses in the middle, in a pipeline and in a transaction.
func TestBatchWithARefusedTopic(t *testing.T) {
	url, good, bad := server(t), topic(), topic()
	b, c := open(t, url, ""), raw(t, url)
	require.NoError(t, c.Set(t.Context(), bad, "no stream", time.Hour).Err())

	errs := batch(t, b,
		outgoing(good, "a", "a1"), outgoing(bad, "b", "b1"), outgoing(good, "", "1"), outgoing(good, "a", "a2"),
		outgoing(good, "b", "b2"), outgoing(bad, "", "2"), outgoing(good, "c", "c1"), outgoing(bad, "c", "c2"),
		outgoing(bad, "c", "c3"), outgoing(good, "c", "c4"), outgoing(good, "a", "a3"))
	for _, i := range []int{0, 2, 3, 6, 10} {
		require.NoError(t, errs[i], i)
	}
	for _, i := range []int{1, 5, 7} {
		require.ErrorContains(t, errs[i], "WRONGTYPE", i)
		require.Equal(t, outbox.FailurePermanent, b.Classify(errs[i]))
	}
	for _, i := range []int{4, 8, 9} {
		require.ErrorIs(t, errs[i], outbox.ErrHeldBack, i)
	}
	require.Equal(t, []string{"a1", "1", "a2", "c1", "a3"}, inStream(t, c, good))
}

// What can't be written is refused by itself, and holds back its own key only.
func TestBatchWithAnUnwritableMessage(t *testing.T) {
	url, name := server(t), topic()
	b, c := open(t, url, ""), raw(t, url)
	reserved := outgoing(name, "k", "2")
	reserved.Message.Metadata.Set(redisstream.UUIDHeaderKey, "mine")
	errs := batch(t, b, outgoing(name, "k", "1"), reserved, outgoing(name, "k", "3"), outgoing(name, "l", "4"))
	require.NoError(t, errs[0])
	require.Equal(t, outbox.FailurePermanent, b.Classify(errs[1]))
	require.ErrorIs(t, errs[2], outbox.ErrHeldBack)
	require.NoError(t, errs[3])
	require.Equal(t, []string{"1", "4"}, inStream(t, c, name))
}

func TestBatchKeepsTheOrderOfAHotKey(t *testing.T) {
	url, one, two := server(t), topic(), topic()
	b, c := open(t, url, ""), raw(t, url)
	var all []outbox.Outgoing
	var want [2][]string
	for i := range 500 {
		name, n := one, 0
		if i%50 == 49 {
			name, n = two, 1
		}
		all = append(all, outgoing(name, "hot", fmt.Sprint(i)))
		want[n] = append(want[n], fmt.Sprint(i))
	}
	require.Equal(t, make([]error, 500), batch(t, b, all...))
	require.Equal(t, want[0], inStream(t, c, one))
	require.Equal(t, want[1], inStream(t, c, two))
}

func TestPublishStopsAtTheFirstError(t *testing.T) {
	url, name := server(t), topic()
	b, c := open(t, url, ""), raw(t, url)
	reserved := message.NewMessage("2", nil)
	reserved.Metadata.Set(redisstream.UUIDHeaderKey, "mine")
	require.Error(t, b.Publisher().Publish(name, message.NewMessage("1", []byte("1")), reserved, message.NewMessage("3", []byte("3"))))
	require.Equal(t, []string{"1"}, inStream(t, c, name))
}

func TestMaxlen(t *testing.T) {
	url, capped, whole := server(t), topic(), topic()
	limited, free, c := open(t, url+"?maxlen=100", ""), open(t, url, ""), raw(t, url)
	for range 5 {
		for name, b := range map[string]broker.Broker{capped: limited, whole: free} {
			all := make([]outbox.Outgoing, 200)
			for i := range all {
				all[i] = outgoing(name, "", "x")
			}
			require.Equal(t, make([]error, 200), batch(t, b, all...))
		}
	}
	require.Less(t, c.XLen(t.Context(), capped).Val(), int64(400), "about maxlen: whole nodes of the stream are cut, 100 entries by default")
	require.EqualValues(t, 1000, c.XLen(t.Context(), whole).Val())
}

func TestBatchReturnsSoonAfterItsContext(t *testing.T) {
	brokertest.BatchReturnsSoonAfterItsContext(t, redis.Driver{}, "redis")
}

func TestPublishRacesClose(t *testing.T) {
	brokertest.PublishRacesClose(t, open(t, server(t), ""), topic())
}

func TestNobodyListens(t *testing.T) {
	const password = "pa55word"
	brokertest.NobodyListens(t, redis.Driver{}, "redis://somebody:"+password+"@"+brokertest.ClosedPort(t), password, "redis: ping: ")
}

func TestURL(t *testing.T) {
	brokertest.RefusesURLs(t, redis.Driver{}, map[string]string{
		"redis://a,b":                "host",
		"redis://localhost/db":       "path",
		"redis://localhost/-1":       "path",
		"redis://localhost?maxlen=x": "maxlen",
		"redis://localhost?maxlenn=": "maxlenn",
		"redis://localhost?timeout=": "timeout",
	})
	c := raw(t, server(t))
	if options := c.Options(); !strings.HasPrefix(options.Addr, ":") {
		b, name := open(t, "redis://"+options.Addr+"/3", ""), topic()
		require.NoError(t, batch(t, b, outgoing(name, "", "1"))[0])
		third := client.NewClient(&client.Options{Addr: options.Addr, DB: 3})
		defer third.Close()
		require.EqualValues(t, 1, third.XLen(t.Context(), name).Val())
	}
}
