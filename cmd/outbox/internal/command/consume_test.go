package command

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// queueDriver opens queue:// URLs: a broker in this process.
type queueDriver struct {
	*gochannel.GoChannel
	groups chan string
}

func newQueue(t testing.TB) queueDriver {
	t.Helper()
	q := queueDriver{gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil), make(chan string, 10)}
	t.Cleanup(func() { require.NoError(t, q.GoChannel.Close()) })
	return q
}

func (queueDriver) Schemes() []string { return []string{"queue"} }

func (q queueDriver) Open(_ context.Context, _ *broker.URL, options broker.Options) (broker.Broker, error) {
	q.groups <- options.Group
	return q, nil
}

func (q queueDriver) Publisher() message.Publisher            { return q.GoChannel }
func (q queueDriver) Subscriber() (message.Subscriber, error) { return view{q.GoChannel}, nil }
func (q queueDriver) Classify(error) outbox.FailureKind       { return outbox.FailureUnknown }
func (q queueDriver) Ping(context.Context) error              { return nil }
func (q queueDriver) Close() error                            { return nil }

// view leaves the queue open.
type view struct{ message.Subscriber }

func (view) Close() error { return nil }

func TestConsume(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	msg := message.NewMessage("u1", []byte("one <&>"))
	outbox.SetKey(msg, "alice")
	acked := msg.Copy()
	require.NoError(t, q.Publish("orders", acked, message.NewMessage("u2", []byte("\xff"))))
	consume := func(args ...string) *call {
		c := newCall(append([]string{"consume", "--broker", "queue://", "--topic", "orders"}, args...)...)
		c.Brokers = broker.NewMux(q)
		return c
	}
	c := consume("--count", "2", "--group", "g").ends(t, ExitOK)
	require.ElementsMatch(t, []string{"one <&>", "\xff"}, strings.Split(strings.TrimSpace(c.stdout.String()), "\n"))
	require.Empty(t, <-q.groups, "that of the settings' check")
	require.Equal(t, "g", <-q.groups)

	c = consume("--count", "2", "--json").ends(t, ExitOK)
	require.ElementsMatch(t, []string{
		`{"uuid":"u1","topic":"orders","key":"alice","metadata":{"outbox_key":"alice"},"payload":"one <&>"}`,
		`{"uuid":"u2","topic":"orders","payload_base64":"/w=="}`,
	}, strings.Split(strings.TrimSpace(c.stdout.String()), "\n"))

	c = consume()
	stop := c.starts(t)
	eventually(t, "both are printed", func() bool { return strings.Count(c.stdout.String(), "\n") == 2 })
	require.Equal(t, ExitOK, stop())

	c = consume("--count", "3")
	stop = c.starts(t)
	eventually(t, "both are printed", func() bool { return strings.Count(c.stdout.String(), "\n") == 2 })
	require.Equal(t, ExitFailure, stop())
	require.Contains(t, c.stderr.String(), "interrupted after 2 of 3 messages")
}

// brokenPipe can't be written to.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// oneMessage is a broker with one message.
type oneMessage struct {
	queueDriver
	msg *message.Message
}

func (o oneMessage) Open(context.Context, *broker.URL, broker.Options) (broker.Broker, error) {
	return o, nil
}
func (o oneMessage) Subscriber() (message.Subscriber, error) { return o, nil }
func (o oneMessage) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	messages := make(chan *message.Message, 1)
	messages <- o.msg
	close(messages)
	return messages, nil
}

func TestOnlyWhatIsPrintedIsAcknowledged(t *testing.T) {
	t.Parallel()
	o := oneMessage{newQueue(t), message.NewMessage("u", []byte("x"))}
	c := newCall("consume", "--broker", "queue://", "--topic", "orders")
	c.Brokers, c.Stdout = broker.NewMux(o), brokenPipe{}
	c.ends(t, ExitFailure)
	await(t, "it is not acknowledged", o.msg.Nacked())

	o.msg = message.NewMessage("u", []byte("x"))
	c = newCall("consume", "--broker", "queue://", "--topic", "orders")
	c.Brokers = broker.NewMux(o)
	c.ends(t, ExitFailure)
	await(t, "it is acknowledged", o.msg.Acked())
	require.Contains(t, c.stderr.String(), "the broker has ended the subscription")
}

func TestConsumeFromWhatOnlyTakes(t *testing.T) {
	t.Parallel()
	c := newCall("consume", "--broker", "ledger://localhost", "--topic", "orders").ends(t, ExitFailure)
	require.Contains(t, c.stderr.String(), "this broker takes messages only")
	newCall("consume", "--broker", "ledger://localhost").ends(t, ExitUsage)
	newCall("consume", "--topic", "orders").ends(t, ExitUsage)
}
