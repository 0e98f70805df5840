package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// The broker has been told that all is well, so a failure must be seen by people.
func TestAMessageAcknowledgedBeforeTheInboxIsReported(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		ch := newChained(t, c)
		ch.deliver(t, failsTimes(0), func(r *message.Router, _ *message.Handler) { r.AddMiddleware(middleware.InstantAck, ch.inbox) })
		require.True(t, ch.logged(outbox.ErrAlreadyAcked))
	})
}

// A router runs middlewares in the order in which they were added, whether to it or to a handler.
func TestAHandlersInboxAddedBeforeTheRoutersRetryIsOutsideIt(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		ch := newChained(t, c)
		require.Equal(t, fate{effects: 3, recorded: 1, emitted: 1}, ch.deliver(t, failsTimes(2), func(r *message.Router, h *message.Handler) {
			h.AddMiddleware(ch.inbox)
			r.AddMiddleware(ch.poison, retry)
		}))
	})
	onEachDriver(t, func(t *testing.T, c consuming) {
		ch := newChained(t, c)
		require.Equal(t, once, ch.deliver(t, failsTimes(2), func(r *message.Router, h *message.Handler) {
			r.AddMiddleware(ch.poison, retry)
			h.AddMiddleware(ch.inbox)
		}))
	})
}

// CorrelationID outside the inbox sees no messages; the inbox passes the id on by itself.
func TestCorrelationReachesTheOutboxWhereverItsMiddlewareIs(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		ch := newChained(t, c)
		for i, chain := range [][]message.HandlerMiddleware{
			{middleware.CorrelationID, ch.inbox}, {ch.inbox, middleware.CorrelationID}, {ch.inbox},
		} {
			execute(t, c.pool, `DELETE FROM public.outbox_inbox`)
			ch.deliver(t, failsTimes(0), func(r *message.Router, _ *message.Handler) { r.AddMiddleware(chain...) })
			require.Equal(t, i+1, c.number(t, `public.outbox WHERE metadata->>'correlation_id' = 'correlated'`))
		}
	})
}

// A command that failed is acknowledged inside the inbox, which takes it for done.
func TestAckCommandHandlingErrorsLosesMessages(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		type pay struct{ Order string }
		inbox := c.inbox(t, 2, outbox.InboxConfig{})
		source := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
		router, err := message.NewRouter(message.RouterConfig{}, nil)
		require.NoError(t, err)
		router.AddMiddleware(inbox.Middleware)
		processor, err := cqrs.NewCommandProcessorWithConfig(router, cqrs.CommandProcessorConfig{
			GenerateSubscribeTopic: func(cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) { return "commands", nil },
			SubscriberConstructor:  func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) { return source, nil },
			Marshaler:              cqrs.JSONMarshaler{}, AckCommandHandlingErrors: true,
		})
		require.NoError(t, err)
		require.NoError(t, processor.AddHandlers(cqrs.NewCommandHandler("pay", func(ctx context.Context, cmd *pay) error {
			return errors.Join(effect(ctx, cmd.Order), errBroken)
		})))
		running := make(chan error, 1)
		go func() { running <- router.Run(t.Context()) }()
		<-router.Running()
		bus, err := cqrs.NewCommandBusWithConfig(source, cqrs.CommandBusConfig{
			GeneratePublishTopic: func(cqrs.CommandBusGeneratePublishTopicParams) (string, error) { return "commands", nil },
			Marshaler:            cqrs.JSONMarshaler{},
		})
		require.NoError(t, err)
		require.NoError(t, bus.Send(t.Context(), &pay{"o"}))
		require.NoError(t, router.Close())
		require.NoError(t, <-running)
		require.Equal(t, 1, c.effects(t, "o"), "half done")
		require.Equal(t, 1, c.number(t, `public.outbox_inbox`), "and never tried again")
	})
}

// The message id alone would let one handler swallow the other's messages, and so would one Consumer for both.
func TestEachHandlerGetsEachMessage(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		for _, consumer := range []string{"", "shop", "other service"} {
			execute(t, c.pool, `DELETE FROM public.effects`)
			router, err := message.NewRouter(message.RouterConfig{}, nil)
			require.NoError(t, err)
			router.AddMiddleware(c.inbox(t, 4, outbox.InboxConfig{Consumer: consumer}).Middleware)
			source := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
			for _, handler := range []string{"emails", "invoices"} {
				router.AddConsumerHandler(handler, "orders", source, func(msg *message.Message) error {
					return effect(msg.Context(), handler+" "+msg.UUID)
				})
			}
			running := make(chan error, 1)
			go func() { running <- router.Run(t.Context()) }()
			<-router.Running()
			for i := range 10 {
				for range 3 { // copies
					require.NoError(t, source.Publish("orders", message.NewMessage(fmt.Sprint(i), nil)))
				}
			}
			require.NoError(t, router.Close())
			require.NoError(t, <-running)
			require.Equal(t, 20, c.number(t, `public.effects`))
			require.Equal(t, 20, c.number(t, `(SELECT DISTINCT id FROM public.effects) e`))
		}
		require.Equal(t, 60, c.number(t, `public.outbox_inbox`), "and each service too")
	})
}

// A transaction held open while a handler waits for its next try would hold a connection, and locks.
func TestNoTransactionIsOpenWhileRetryBacksOff(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		ch := newChained(t, c)
		var waits atomic.Int32
		backsOff := middleware.Retry{
			MaxRetries: 3, InitialInterval: time.Millisecond, ResetContextOnRetry: true,
			ShouldRetry: func(middleware.RetryParams) bool {
				waits.Add(1)
				return c.number(t, `pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`) == 0
			},
		}
		require.Equal(t, once, ch.deliver(t, failsTimes(3), func(r *message.Router, _ *message.Handler) { r.AddMiddleware(ch.poison, backsOff.Middleware, ch.inbox) }))
		require.EqualValues(t, 3, waits.Load())
	})
}

// Nobody is told that a message was handled while the database is away.
func TestAMessageThatCannotBeRecordedIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		ch := newChained(t, c)
		h := failsTimes(0)
		cuts := 2
		require.Equal(t, once, ch.deliver(t, func(msg *message.Message) ([]*message.Message, error) {
			out, err := h(msg)
			if cuts--; cuts >= 0 {
				execute(t, c.pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`)
			}
			return out, err
		}, func(r *message.Router, _ *message.Handler) { r.AddMiddleware(ch.inbox) }))
		require.Negative(t, cuts)
	})
}

// logged says whether an error was logged.
func (ch chained) logged(want error) bool {
	return slices.ContainsFunc(ch.logger.Captured()[watermill.ErrorLogLevel], func(m watermill.CapturedMessage) bool { return errors.Is(m.Err, want) })
}
