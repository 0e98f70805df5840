package outbox_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

type contextValue struct{}

// watching keeps the context that a statement was executed with.
type watching struct {
	outbox.SQLExecutor
	ctx context.Context
}

func (w *watching) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	w.ctx = ctx
	if w.SQLExecutor == nil {
		return nil, ctx.Err()
	}
	return w.SQLExecutor.ExecContext(ctx, query, args...)
}

func TestFirstMessagesContextIsUsed(t *testing.T) {
	t.Parallel()
	executor := &watching{}
	publisher := publisherOf(t, executor, outbox.PublisherConfig{})
	deadline := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(context.WithValue(t.Context(), contextValue{}, "traced"), deadline)
	defer cancel()
	first, second := text("a", ""), text("b", "")
	first.SetContext(ctx)
	require.NoError(t, publisher.Publish("orders", first, second))
	require.Equal(t, "traced", executor.ctx.Value(contextValue{}))
	used, ok := executor.ctx.Deadline()
	require.True(t, ok)
	require.Equal(t, deadline, used)

	require.NoError(t, publisher.Publish("orders", second, first))
	require.Nil(t, executor.ctx.Value(contextValue{}))
	_, ok = executor.ctx.Deadline()
	require.False(t, ok, "a context without a deadline sets none")
}

// TestMessageOfTheTimeoutMiddlewareIsStored: that middleware cancels the message's context when the handler returns,
// before its messages are published.
func TestMessageOfTheTimeoutMiddlewareIsStored(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	executor := &watching{SQLExecutor: w.db}
	incoming := text("incoming", "")
	incoming.SetContext(context.WithValue(t.Context(), contextValue{}, "traced"))
	handler := middleware.Timeout(time.Minute)(func(msg *message.Message) ([]*message.Message, error) {
		produced := text("produced", "")
		produced.SetContext(msg.Context())
		return []*message.Message{produced}, nil
	})
	produced, err := handler(incoming)
	require.NoError(t, err)
	require.ErrorIs(t, produced[0].Context().Err(), context.Canceled)

	for timeout, most := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Minute: time.Minute} {
		publisher := publisherOf(t, executor, outbox.PublisherConfig{Timeout: timeout})
		require.NoError(t, publisher.Publish("orders", produced...))
		require.Equal(t, "traced", executor.ctx.Value(contextValue{}))
		deadline, ok := executor.ctx.Deadline()
		require.True(t, ok)
		require.WithinDuration(t, time.Now().Add(most), deadline, most/2)
	}
	require.NoError(t, publisherOf(t, executor, outbox.PublisherConfig{Timeout: -1}).Publish("orders", produced...))
	_, ok := executor.ctx.Deadline()
	require.False(t, ok)
	require.Len(t, w.stored(t), 3)
}
