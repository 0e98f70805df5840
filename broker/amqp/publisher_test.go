package amqp_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/amqp"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
)

func TestFormatIsWatermillAMQPs(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		name := topic()
		b := open(t, url+"?groups=ours,theirs", "ours")
		config := wamqp.NewDurablePubSubConfig(url, wamqp.GenerateQueueNameTopicNameWithSuffix("theirs"))
		s, err := wamqp.NewSubscriber(config, watermill.NopLogger{})
		require.NoError(t, err)
		defer s.Close()
		p, err := wamqp.NewPublisher(config, watermill.NopLogger{})
		require.NoError(t, err)
		defer p.Close()

		msg := outgoing(name, "k", "payload")
		require.NoError(t, batch(t, b, msg)[0])
		messages, err := s.Subscribe(t.Context(), name)
		require.NoError(t, err)
		got := receive(t, messages)
		require.True(t, msg.Message.Equals(got))
		require.True(t, got.Ack())

		_, messages = subscribe(t, b, name)
		require.Equal(t, []string{"payload"}, receiveAll(t, messages, 1))
		require.NoError(t, p.Publish(name, msg.Message))
		got = receive(t, messages)
		require.True(t, msg.Message.Equals(got))
		require.True(t, got.Ack())
	})
}

// An exchange that nobody may publish to closes the channel, and with it what is in flight beside.
func TestBatchWithARefusedTopic(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		good, bad, c := topic(), topic(), raw(t, url)
		require.NoError(t, c.ExchangeDeclare(bad, "fanout", true, false, true, false, nil))
		b := open(t, url+"?groups=g", "")
		errs := batch(t, b,
			outgoing(good, "a", "a1"), outgoing(bad, "b", "b1"), outgoing(good, "", "1"), outgoing(good, "a", "a2"),
			outgoing(good, "b", "b2"), outgoing(bad, "", "2"), outgoing(good, "c", "c1"), outgoing(bad, "c", "c2"), outgoing(good, "c", "c3"))
		for _, i := range []int{0, 2, 3, 6} {
			require.NoError(t, errs[i], i)
		}
		for _, i := range []int{1, 5, 7} {
			require.ErrorContains(t, errs[i], "ACCESS_REFUSED", i)
			require.Equal(t, outbox.FailurePermanent, b.Classify(errs[i]))
		}
		for _, i := range []int{4, 8} {
			require.ErrorIs(t, errs[i], outbox.ErrHeldBack, i)
		}
		got := inQueue(t, c, good+"_g")
		for _, payload := range []string{"a1", "1", "a2", "c1"} {
			require.Contains(t, got, payload, "those that were interrupted are sent again")
		}
		require.NotContains(t, got, "b2")
		require.NotContains(t, got, "c3")
	})
}

// A queue that is full rejects, and takes the next as soon as there is room again.
func TestBatchForAFullQueue(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		name, c := topic(), raw(t, url)
		_, err := c.QueueDeclare(name+"_g", true, false, false, false, amqp091.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
		require.NoError(t, err)
		b := open(t, url+"?groups=g", "")
		errs := batch(t, b, outgoing(name, "k", "1"), outgoing(name, "k", "2"), outgoing(name, "k", "3"))
		require.NoError(t, errs[0])
		require.Equal(t, outbox.FailureOutage, b.Classify(errs[1]), errs[1])
		require.ErrorIs(t, errs[2], outbox.ErrHeldBack)
		require.Equal(t, []string{"1"}, inQueue(t, c, name+"_g"))
	})
}

func TestBatchKeepsTheOrderOfAHotKey(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		b, name, c := open(t, url+"?groups=g", ""), topic(), raw(t, url)
		var all []outbox.Outgoing
		var want []string
		for i := range 100 {
			all = append(all, outgoing(name, "hot", fmt.Sprint(i)))
			want = append(want, fmt.Sprint(i))
		}
		require.Equal(t, make([]error, 100), batch(t, b, all...))
		require.Equal(t, want, inQueue(t, c, name+"_g"))
	})
}

// More than a window in flight, each of which comes back.
func TestLargeBatchThatIsUnrouted(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		b, name := open(t, url, ""), topic()
		all := make([]outbox.Outgoing, 600)
		for i := range all {
			all[i] = outgoing(name, "", "x")
		}
		var unrouted *amqp.UnroutedError
		for i, err := range batch(t, b, all...) {
			require.ErrorAs(t, err, &unrouted, i)
		}
	})
}

func TestDeletedExchangeIsMadeAgain(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		b, name, c := open(t, url+"?groups=g", ""), topic(), raw(t, url)
		require.NoError(t, batch(t, b, outgoing(name, "", "1"))[0])
		require.NoError(t, c.ExchangeDelete(name, false, false))
		other := topic()
		require.Equal(t, make([]error, 3), batch(t, b, outgoing(name, "", "2"), outgoing(other, "", "x"), outgoing(name, "", "3")))
		require.ElementsMatch(t, []string{"1", "2", "3"}, inQueue(t, c, name+"_g"))
		require.Equal(t, []string{"x"}, slices.Compact(inQueue(t, c, other+"_g")))
	})
}

func TestDeletedQueueOfAGroupIsMadeAgainByThePublisher(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		b, name, other, c := open(t, url+"?groups=g", ""), topic(), topic(), raw(t, url)
		require.Equal(t, make([]error, 2), batch(t, b, outgoing(name, "", "1"), outgoing(other, "", "1")))
		_, err := c.QueueDelete(name+"_g", false, false, false)
		require.NoError(t, err)
		require.Equal(t, make([]error, 2), batch(t, b, outgoing(name, "", "2"), outgoing(other, "", "2")))
		require.Equal(t, []string{"2"}, inQueue(t, c, name+"_g"))
		require.Equal(t, []string{"1", "2"}, inQueue(t, c, other+"_g"))
	})
}

func TestWhatAMQPHasNoFormFor(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		b, name, c := open(t, url+"?groups=g", ""), topic(), raw(t, url)
		set := func(key, value string) outbox.Outgoing {
			out := outgoing(name, "", "x")
			out.Message.Metadata = message.Metadata{key: value}
			return out
		}
		fits := set("k", strings.Repeat("x", 130_000))
		errs := batch(t, b, outgoing(name, "", "1"), set("large", strings.Repeat("x", 131_072)), set(strings.Repeat("k", 256), ""),
			set(wamqp.DefaultMessageUUIDHeaderKey, "mine"), set("CC", "me"), set("BCC", "me"), outgoing(strings.Repeat("t", 256), "", "x"), outgoing("amq.reserved", "", "x"),
			outgoing("", "", "x"), fits)
		for i, err := range errs {
			if i == 0 || i == len(errs)-1 {
				require.NoError(t, err)
				continue
			}
			require.Equal(t, outbox.FailurePermanent, b.Classify(err), err)
		}
		require.Equal(t, []string{"1", "x"}, inQueue(t, c, name+"_g"))
	})
}

func TestPublishStopsAtTheFirstError(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		b, name, c := open(t, url+"?groups=g", ""), topic(), raw(t, url)
		reserved := message.NewMessage("2", nil)
		reserved.Metadata.Set(wamqp.DefaultMessageUUIDHeaderKey, "mine")
		require.Error(t, b.Publisher().Publish(name, message.NewMessage("1", []byte("1")), reserved, message.NewMessage("3", []byte("3"))))
		require.Equal(t, []string{"1"}, inQueue(t, c, name+"_g"))
	})
}

func TestPublishRacesClose(t *testing.T) {
	onServer(t, func(t *testing.T, url string) { brokertest.PublishRacesClose(t, open(t, url+"?groups=g", ""), topic()) })
}

func TestNobodyMayConnect(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		uri, err := amqp091.ParseURI(url)
		require.NoError(t, err)
		at := net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))
		for text, bad := range map[string]string{
			"not allowed": "amqp://somebody:pa55word@" + at,
			"no access":   url + "nohost",
		} {
			b := open(t, bad, "g")
			err := b.Publisher().Publish("t", message.NewMessage("1", nil))
			require.ErrorContains(t, err, text)
			require.Equal(t, outbox.FailureOutage, b.Classify(err))
			require.NotContains(t, err.Error(), "pa55word")
		}
	})
}

func TestTLS(t *testing.T) {
	onServer(t, func(t *testing.T, url string) {
		uri, err := amqp091.ParseURI(url)
		require.NoError(t, err)
		a := brokertest.NewAuthority(t)
		address := brokertest.TLSProxy(t, a.Server(t), net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)))
		brokertest.SpeaksTLS(t, amqp.Driver{}, "amqps://"+uri.Username+":"+uri.Password+"@"+address, a, "&groups=g")
	})
}
