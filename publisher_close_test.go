package outbox_test

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestClosedPublisherRefuses(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	publisher := publisherOf(t, w.db, outbox.PublisherConfig{})
	tx := w.begin(t)
	view := publisher.WithTx(tx)
	other := publisher.WithTx(tx)

	require.NoError(t, view.Close())
	require.NoError(t, view.Close(), "a second Close")
	require.ErrorIs(t, view.Publish("orders", text("a", "")), outbox.ErrClosed)
	require.NoError(t, publisher.Publish("orders", text("b", "")), "a view's Close is its own")
	require.NoError(t, other.Publish("orders", text("c", "")))

	require.NoError(t, publisher.Close())
	require.ErrorIs(t, publisher.Publish("orders", text("d", "")), outbox.ErrClosed)
	require.ErrorIs(t, publisher.Publish("orders"), outbox.ErrClosed)
	require.ErrorIs(t, other.Publish("orders", text("e", "")), outbox.ErrClosed)
	require.NoError(t, tx.Commit(), "the transaction is the caller's, and still usable")
	require.NoError(t, w.db.PingContext(t.Context()))
	require.Len(t, w.stored(t), 2)
}

func TestNilTransactionIsAnError(t *testing.T) {
	t.Parallel()
	var typed *sql.Tx
	for name, tx := range map[string]outbox.SQLExecutor{"untyped": nil, "typed": typed} {
		_, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
		require.ErrorContains(t, err, "transaction is nil", name)
	}
	_, err := outbox.NewPgxPublisher(nil, outbox.PublisherConfig{}, nil)
	require.ErrorContains(t, err, "transaction is nil")
	_, err = outbox.NewPgxPublisher((*pgx.Conn)(nil), outbox.PublisherConfig{}, nil)
	require.ErrorContains(t, err, "transaction is nil")

	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	require.NoError(t, err)
	require.ErrorContains(t, publisher.WithTx(nil).Publish("orders", text("a", "")), "transaction is nil")
	require.ErrorContains(t, publisher.WithPgxTx(nil).Publish("orders", text("a", "")), "transaction is nil")
}

func TestPublishingNothingDoesNothing(t *testing.T) {
	t.Parallel()
	publisher := publisherOf(t, failing{}, outbox.PublisherConfig{})
	require.NoError(t, publisher.Publish("orders"))
	require.NoError(t, publisher.Publish(""))
}

func TestDatabaseErrorIsWrapped(t *testing.T) {
	t.Parallel()
	err := publisherOf(t, failing{}, outbox.PublisherConfig{}).Publish("orders", text("a", "secret"), text("b", "secret"))
	require.ErrorIs(t, err, errExecuted)
	require.EqualError(t, err, `outbox: writing messages 0 to 1 of 2 into "public"."outbox": executed`)
}

func TestRowsTakenAwayByATriggerAreAnError(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	w.exec(t, `CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	w.exec(t, `CREATE TRIGGER swallow BEFORE INSERT ON public.outbox FOR EACH ROW WHEN (NEW.uuid = 'b') EXECUTE FUNCTION public.swallow()`)
	publisher := publisherOf(t, w.db, outbox.PublisherConfig{})
	require.NoError(t, publisher.Publish("orders", text("a", "")))
	require.ErrorContains(t, publisher.Publish("orders", text("b", "")), "wrote 0 rows, not 1")
	require.ErrorContains(t, publisher.Publish("orders", text("a", ""), text("b", "")), "wrote 1 rows, not 2")
}
