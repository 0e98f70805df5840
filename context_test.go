package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func contextPublisher(t *testing.T) *outbox.Publisher {
	t.Helper()
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	require.NoError(t, err)
	return publisher
}

func inContext(ctx context.Context, uuid string) *message.Message {
	msg := text(uuid, "")
	msg.SetContext(ctx)
	return msg
}

type orderPlaced struct{ Order string }

func TestOneEventBusServesEveryTransaction(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	bus, err := cqrs.NewEventBusWithConfig(contextPublisher(t), cqrs.EventBusConfig{
		GeneratePublishTopic: func(params cqrs.GenerateEventPublishTopicParams) (string, error) { return params.EventName, nil },
		Marshaler:            cqrs.JSONMarshaler{GenerateName: cqrs.StructName},
	})
	require.NoError(t, err)

	var both, done sync.WaitGroup
	both.Add(2)
	errs := make([]error, 2)
	for i, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
		tx := w.begin(t)
		done.Go(func() {
			ctx := outbox.ContextWithTx(t.Context(), tx)
			errs[i] = errors.Join(
				bus.Publish(ctx, orderPlaced{Order: fmt.Sprint(i, " first")}),
				bus.Publish(ctx, orderPlaced{Order: fmt.Sprint(i, " second")}))
			both.Done()
			both.Wait() // both transactions have published, and neither has ended
			errs[i] = errors.Join(errs[i], end(tx))
		})
	}
	done.Wait()
	require.NoError(t, errors.Join(errs...))

	rows := w.stored(t)
	require.Len(t, rows, 2)
	for i, order := range []string{"0 first", "0 second"} {
		require.Equal(t, "orderPlaced", rows[i].Topic)
		require.JSONEq(t, fmt.Sprintf(`{"Order": %q}`, order), string(rows[i].Payload))
	}
}

func TestContextPublisherNeedsATransaction(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	publisher := contextPublisher(t)
	ctx := outbox.ContextWithTx(t.Context(), w.begin(t))
	var typed *sql.Tx
	for name, call := range map[string][]*message.Message{
		"none":         {inContext(t.Context(), "a")},
		"second":       {inContext(ctx, "good"), inContext(t.Context(), "a")},
		"nil":          {inContext(outbox.ContextWithTx(ctx, nil), "a")},
		"typed nil":    {inContext(outbox.ContextWithTx(ctx, typed), "a")},
		"nil pgx":      {inContext(outbox.ContextWithPgxTx(ctx, nil), "a")},
		"typed nilpgx": {inContext(outbox.ContextWithPgxTx(ctx, (*pgx.Conn)(nil)), "a")},
	} {
		err := publisher.Publish("orders", call...)
		require.ErrorIs(t, err, outbox.ErrNoTransaction, name)
		var refusal *outbox.MessageError
		require.ErrorAs(t, err, &refusal, name)
		require.Equal(t, len(call)-1, refusal.Index, name)
		require.Equal(t, "transaction", refusal.Field, name)
	}
	require.EqualError(t, publisher.Publish("orders", inContext(t.Context(), "a")), `outbox: message 0 (uuid "a"): transaction: `+
		`no transaction in the message's context; put one there with ContextWithTx or ContextWithPgxTx`)
}

// uncomparable is an executor that == panics on.
type uncomparable struct {
	outbox.SQLExecutor
	_ []int
}

func TestMessagesOfOneCallShareTheirTransaction(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	publisher := contextPublisher(t)
	one, two := w.begin(t), w.begin(t)
	of := func(tx outbox.SQLExecutor) context.Context { return outbox.ContextWithTx(t.Context(), tx) }
	odd := of(uncomparable{SQLExecutor: one})

	for name, contexts := range map[string][2]context.Context{
		"two transactions":  {of(one), of(two)},
		"two kinds":         {of(one), outbox.ContextWithPgxTx(t.Context(), w.pool)},
		"can't be compared": {odd, of(uncomparable{SQLExecutor: one})},
	} {
		err := publisher.Publish("orders", inContext(contexts[0], "refused"), inContext(contexts[1], "refused"))
		require.ErrorIs(t, err, outbox.ErrMixedTransactions, name)
	}
	require.NoError(t, publisher.Publish("orders", inContext(of(one), "1"), inContext(of(one), "2")))
	require.NoError(t, publisher.Publish("orders", inContext(odd, "3"), inContext(context.WithValue(odd, contextValue{}, 1), "4")))
	require.NoError(t, one.Commit())
	require.NoError(t, two.Commit(), "a refused call leaves it usable")
	require.Len(t, w.stored(t), 4)
}

func TestInnermostTransactionCounts(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	outer := w.begin(t)
	publisher := contextPublisher(t)
	err := pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
		ctx := outbox.ContextWithPgxTx(outbox.ContextWithTx(t.Context(), outer), tx)
		done, cancel := context.WithCancel(ctx)
		cancel()
		return errors.Join(
			publisher.Publish("orders", inContext(ctx, "inner")),
			publisher.Publish("orders", inContext(done, "inner, of a context that is done")))
	})
	require.NoError(t, err)
	require.NoError(t, outer.Rollback())
	require.Len(t, w.stored(t), 2)
}

func TestViewIgnoresTheContextsTransaction(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	carried, own := w.begin(t), w.begin(t)
	view := contextPublisher(t).WithTx(own)
	require.NoError(t, view.Publish("orders", inContext(outbox.ContextWithTx(t.Context(), carried), "a")))
	require.NoError(t, carried.Rollback())
	require.NoError(t, own.Commit())
	require.Len(t, w.stored(t), 1)
}
