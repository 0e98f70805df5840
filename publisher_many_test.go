package outbox_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"database/sql"
	"fmt"
	"strconv"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

func TestOneCallTakesAHundredThousandMessagesInOrder(t *testing.T) {
	t.Parallel()
	const count = 100_000
	w := newWriting(t)
	messages := make([]*message.Message, count)
	for i := range messages {
		messages[i] = text(strconv.Itoa(i), fmt.Sprintf(`{"n": %d}`, i))
		messages[i].Metadata.Set("trace", strconv.Itoa(i))
		outbox.SetKey(messages[i], strconv.Itoa(i%1000))
	}
	statements := &counting{SQLExecutor: w.begin(t)}
	require.NoError(t, publisherOf(t, statements, outbox.PublisherConfig{}).Publish("orders", messages...))
	require.Equal(t, 1, statements.count)
	require.NoError(t, statements.SQLExecutor.(*sql.Tx).Commit())

	rows := w.stored(t)
	require.Len(t, rows, count)
	for i, row := range rows {
		number := strconv.Itoa(i)
		if row.UUID != number || string(row.Payload) != fmt.Sprintf(`{"n": %d}`, i) || row.Metadata["trace"] != number || row.Key != strconv.Itoa(i%1000) {
			t.Fatalf("message %d is stored as %+v", i, row)
		}
	}
}

func TestLargeCallsGoInSeveralStatementsInOrder(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	const half = 33 << 20
	large := bytes.Repeat([]byte("0123456"), half/7)
	var messages []*message.Message
	for i, payload := range [][]byte{large, []byte("a"), large, {}, []byte("b")} {
		messages = append(messages, message.NewMessage(strconv.Itoa(i), payload))
	}
	statements := &counting{SQLExecutor: w.begin(t)}
	require.NoError(t, publisherOf(t, statements, outbox.PublisherConfig{}).Publish("large", messages...))
	require.NoError(t, statements.SQLExecutor.(*sql.Tx).Commit())
	require.Equal(t, 2, statements.count)

	rows, err := w.pool.Query(t.Context(),
		`SELECT uuid, octet_length(payload), md5(payload) FROM public.outbox ORDER BY id`)
	require.NoError(t, err)
	i := 0
	var uuid, sum string
	var length int
	_, err = pgx.ForEachRow(rows, []any{&uuid, &length, &sum}, func() error {
		require.Equal(t, strconv.Itoa(i), uuid)
		require.Equal(t, len(messages[i].Payload), length)
		require.Equal(t, fmt.Sprintf("%x", md5.Sum(messages[i].Payload)), sum)
		i++
		return nil
	})
	require.NoError(t, err)
	require.Len(t, messages, i)
}

// TestLargePayloadWithTheDoorbellOn: a notification carries no body, which could not be longer than 8,000 bytes.
func TestLargePayloadWithTheDoorbellOn(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	listener, err := w.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer listener.Release()
	_, err = listener.Exec(t.Context(), `LISTEN `+pgsql.Names{Schema: "public", Table: "outbox"}.Channel())
	require.NoError(t, err)
	w.exec(t, `SELECT setval('public.outbox_doorbell', 1, true)`) // a forwarder sleeps

	publisher := publisherOf(t, w.db, outbox.PublisherConfig{})
	require.NoError(t, publisher.Publish("orders", text("a", string(make([]byte, 1<<20)))))
	notification, err := listener.Conn().WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Empty(t, notification.Payload)
	require.Len(t, w.stored(t)[0].Payload, 1<<20)
}

// counting counts statements.
type counting struct {
	outbox.SQLExecutor
	count int
}

func (c *counting) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.count++
	return c.SQLExecutor.ExecContext(ctx, query, args...)
}
