package outbox_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

var errBroken = errors.New("broken")

// fate is what became of a message.
type fate struct{ effects, recorded, poisoned, emitted int }

var (
	once = fate{effects: 1, recorded: 1, emitted: 1}
	lost = fate{}
)

// chained is a router with one handler for a message, on a broker that waits for its acknowledgement.
type chained struct {
	c      consuming
	inbox  message.HandlerMiddleware
	poison message.HandlerMiddleware
	grave  *broker
	logger *watermill.CaptureLoggerAdapter
}

func newChained(t *testing.T, c consuming) chained {
	t.Helper()
	grave := newBroker()
	poison, err := middleware.PoisonQueue(grave, "poison")
	require.NoError(t, err)
	return chained{c, c.inbox(t, 2, outbox.InboxConfig{}).Middleware, poison, grave, watermill.NewCaptureLogger()}
}

// deliver hands a message to a handler and waits until it is acknowledged; add says what goes around the handler.
func (ch chained) deliver(t *testing.T, h message.HandlerFunc, add func(*message.Router, *message.Handler)) fate {
	t.Helper()
	source := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	router, err := message.NewRouter(message.RouterConfig{}, ch.logger)
	require.NoError(t, err)
	add(router, router.AddHandler("h", "orders", source, "done", newBroker(), h))
	running := make(chan error, 1)
	go func() { running <- router.Run(t.Context()) }()
	<-router.Running()
	msg := message.NewMessage("m", []byte("payload"))
	middleware.SetCorrelationID("correlated", msg)
	require.NoError(t, source.Publish("orders", msg))
	require.NoError(t, router.Close())
	require.NoError(t, <-running)
	return fate{
		effects: ch.c.number(t, `public.effects`), recorded: ch.c.number(t, `public.outbox_inbox`),
		poisoned: len(ch.grave.all()), emitted: ch.c.number(t, `public.outbox WHERE topic = 'done'`),
	}
}

// failsTimes makes a handler that takes effect, and then fails so many times before it returns a message.
func failsTimes(times int) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if err := effect(msg.Context(), msg.UUID); err != nil {
			return nil, err
		}
		if times--; times >= 0 {
			return nil, errBroken
		}
		return []*message.Message{message.NewMessage("produced", nil)}, nil
	}
}

func failsFirst(times int) func() message.HandlerFunc {
	return func() message.HandlerFunc { return failsTimes(times) }
}

// hangsOnce takes until its context ends, the first time.
func hangsOnce() message.HandlerFunc {
	first := true
	h := failsTimes(0)
	return func(msg *message.Message) ([]*message.Message, error) {
		if first {
			first = false
			<-msg.Context().Done()
		}
		if err := msg.Context().Err(); err != nil {
			return nil, err
		}
		return h(msg)
	}
}

var (
	always       = 1 << 30
	retry        = middleware.Retry{MaxRetries: 3, InitialInterval: time.Millisecond, ResetContextOnRetry: true}.Middleware
	retryNoReset = middleware.Retry{MaxRetries: 3, InitialInterval: time.Millisecond}.Middleware
	timeout      = middleware.Timeout(100 * time.Millisecond)
	ignoreErrors = middleware.NewIgnoreErrors([]error{errBroken}).Middleware
)

// What each order of middlewares does to one message. The documentation rests on this table.
func TestWhatOrdersOfMiddlewaresDo(t *testing.T) {
	t.Parallel()
	type chain []message.HandlerMiddleware
	for name, row := range map[string]struct {
		handler func() message.HandlerFunc
		chain   func(ch chained) chain
		want    fate
	}{
		"the right one, a message that fails twice": {failsFirst(2),
			func(ch chained) chain { return chain{ch.poison, retry, timeout, middleware.Recoverer, ch.inbox} }, once},
		"the right one, a message that hangs once": {hangsOnce,
			func(ch chained) chain { return chain{ch.poison, retry, timeout, middleware.Recoverer, ch.inbox} }, once},
		"the right one, a poisonous message": {failsFirst(always),
			func(ch chained) chain { return chain{ch.poison, retry, timeout, middleware.Recoverer, ch.inbox} }, fate{poisoned: 1}},
		"no retry, a message that fails twice: the broker redelivers": {failsFirst(2),
			func(ch chained) chain { return chain{ch.inbox} }, once},

		"Inbox > Retry: an effect for each try": {failsFirst(2),
			func(ch chained) chain { return chain{ch.poison, ch.inbox, retry} }, fate{effects: 3, recorded: 1, emitted: 1}},
		"Inbox > PoisonQueue > Retry: recorded as done, with the effects of all tries": {failsFirst(always),
			func(ch chained) chain { return chain{ch.inbox, ch.poison, retry} }, fate{effects: 4, recorded: 1, poisoned: 1}},
		"Retry > PoisonQueue: given up at the first failure": {failsFirst(2),
			func(ch chained) chain { return chain{retry, ch.poison, ch.inbox} }, fate{poisoned: 1}},
		"Retry without ResetContextOnRetry > Timeout: no try after a timeout can succeed": {hangsOnce,
			func(ch chained) chain { return chain{ch.poison, retryNoReset, timeout, ch.inbox} }, fate{poisoned: 1}},
		"Timeout > Retry: the tries share one timeout": {hangsOnce,
			func(ch chained) chain { return chain{ch.poison, timeout, retry, ch.inbox} }, fate{poisoned: 1}},
		"IgnoreErrors > Inbox: lost": {failsFirst(2),
			func(ch chained) chain { return chain{ch.poison, ignoreErrors, ch.inbox} }, lost},
		"Inbox > IgnoreErrors: half done, and recorded": {failsFirst(2),
			func(ch chained) chain { return chain{ch.poison, ch.inbox, ignoreErrors} }, fate{effects: 1, recorded: 1}},
		"Deduplicator > Inbox: lost, it remembers a message that failed": {failsFirst(2),
			func(ch chained) chain { return chain{(&middleware.Deduplicator{}).Middleware, ch.inbox} }, lost},
		"Inbox > Deduplicator: recorded without effect": {failsFirst(2),
			func(ch chained) chain { return chain{ch.inbox, (&middleware.Deduplicator{}).Middleware} }, fate{recorded: 1}},
		"InstantAck > Inbox: not handled": {failsFirst(0),
			func(ch chained) chain { return chain{middleware.InstantAck, ch.inbox} }, lost},
		"Inbox > InstantAck: lost when it fails": {failsFirst(2),
			func(ch chained) chain { return chain{ch.inbox, middleware.InstantAck} }, lost},
	} {
		t.Run(name, func(t *testing.T) {
			onEachDriver(t, func(t *testing.T, c consuming) {
				ch := newChained(t, c)
				require.Equal(t, row.want, ch.deliver(t, row.handler(), func(r *message.Router, _ *message.Handler) { r.AddMiddleware(row.chain(ch)...) }))
			})
		})
	}
}
