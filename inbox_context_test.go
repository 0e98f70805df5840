package outbox_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Watermill's Timeout leaves a context that has ended, and a router that closes ends those of its messages.
func TestInboxCommitsWhatAHandlerDidWithAContextThatEnds(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		inbox := c.inbox(t, 1, serviceConfig())
		ctx, cancel := context.WithCancel(t.Context())
		msg := incoming(t, "a")
		msg.SetContext(ctx)
		require.NoError(t, handle(inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			err := effect(msg.Context(), msg.UUID)
			cancel()
			require.ErrorIs(t, msg.Context().Err(), context.Canceled, "the handler sees it")
			return nil, err
		}), msg))
		require.Equal(t, 1, c.effects(t, "a"))
		require.Equal(t, ctx, msg.Context())
	})
}

func TestInboxBeginsThoughTheContextHasEnded(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		config := serviceConfig()
		config.PublishTopic = "done"
		inbox := c.inbox(t, 1, config)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		msg := incoming(t, "a")
		msg.SetContext(ended)
		require.NoError(t, handle(inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			require.ErrorIs(t, msg.Context().Err(), context.Canceled)
			msg.SetContext(context.WithoutCancel(msg.Context()))
			return []*message.Message{message.NewMessage("", []byte("out"))}, effect(msg.Context(), msg.UUID)
		}), msg))
		require.Equal(t, 1, c.effects(t, "a"))
		require.Equal(t, 1, c.number(t, `public.outbox`))

		failing := incoming(t, "b")
		failing.SetContext(ended)
		require.ErrorIs(t, handle(inbox.Middleware(takesEffect), failing), context.Canceled, "it used its message's context")
		require.Zero(t, c.recorded(t, "b"))
		require.Same(t, ended, failing.Context())
	})
}

func TestTheTransactionIsFoundInsideTheInboxOnly(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		inbox := c.inbox(t, 1, serviceConfig())
		msg := incoming(t, "a")
		for range 2 { // the second is skipped
			require.NoError(t, handle(inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				_, sql := outbox.TxFromContext(msg.Context())
				_, pgx := outbox.PgxTxFromContext(msg.Context())
				require.NotEqual(t, sql, pgx, "one of them")
				return nil, nil
			}), msg))
			_, sql := outbox.TxFromContext(msg.Context())
			_, pgx := outbox.PgxTxFromContext(msg.Context())
			require.False(t, sql || pgx)
		}
	})
}

// A goroutine that the handler left behind gets its message into the transaction or gets an error; the message is not
// lost in silence, and does not get into the next message's transaction on the same connection.
func TestAGoroutineThatOutlivesItsHandlerPublishesOrIsTold(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
		require.NoError(t, err)
		inbox := c.inbox(t, 1, serviceConfig())
		told := make(chan int, 1)
		for round := range 30 {
			require.NoError(t, handle(inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				ctx := context.WithoutCancel(msg.Context())
				started := make(chan struct{})
				go func() {
					published := 0
					for {
						err := publisher.Publish("t", message.NewMessageWithContext(ctx, "", nil))
						if published == 0 {
							close(started)
						}
						if err != nil {
							told <- published
							return
						}
						published++
					}
				}()
				<-started
				return nil, nil
			}), incoming(t, fmt.Sprint(round))))
			published := <-told
			require.Equal(t, published, c.number(t, `public.outbox`))
			execute(t, c.pool, `DELETE FROM public.outbox`)
		}
	})
}
