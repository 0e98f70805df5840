package sql_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/sql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// patience is how long a test waits for a condition. It is not an assertion about time.
const patience = time.Minute

func TestMain(m *testing.M) { testdb.Main(m) }

// with adds parameters to a URL.
func with(url, parameters string) string {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + parameters
}

// newDatabase gives the URL of an empty database, with a search_path.
func newDatabase(t testing.TB) string {
	t.Helper()
	return with(testdb.URL(t), "search_path=public")
}

func open(t testing.TB, url, group string) broker.Broker {
	t.Helper()
	b, err := broker.NewMux(sql.Driver{}).Open(t.Context(), url, broker.Options{Group: group})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func outgoing(topic, key, payload string) outbox.Outgoing {
	msg := message.NewMessage(watermill.NewULID(), []byte(payload))
	outbox.SetKey(msg, key)
	return outbox.Outgoing{Topic: topic, Key: key, Message: msg}
}

func publishBatch(t testing.TB, b broker.Broker, batch ...outbox.Outgoing) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, batch)
}

func publish(t testing.TB, b broker.Broker, topic string, payloads ...string) {
	t.Helper()
	for _, payload := range payloads {
		require.NoError(t, b.Publisher().Publish(topic, outgoing(topic, "", payload).Message))
	}
}

func subscribe(t testing.TB, b broker.Broker, topic string) <-chan *message.Message {
	t.Helper()
	s, err := b.Subscriber()
	require.NoError(t, err)
	out, err := s.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	return out
}

// next gives the next message, which is not acked yet.
func next(t testing.TB, from <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-from:
		require.True(t, ok)
		return msg
	case <-time.After(patience):
		require.FailNow(t, "no message")
		return nil
	}
}

// read acks as many messages and gives their payloads.
func read(t testing.TB, from <-chan *message.Message, n int) (payloads []string) {
	t.Helper()
	for range n {
		msg := next(t, from)
		payloads = append(payloads, string(msg.Payload))
		require.True(t, msg.Ack())
	}
	return payloads
}

func execute(t testing.TB, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	for _, statement := range statements {
		_, err = conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
}

// column gives a column of a query.
func column[T any](t testing.TB, url, query string) []T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	rows, err := conn.Query(t.Context(), query)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return values
}

const payloadsOfT = `SELECT convert_from(payload, 'UTF8') FROM watermill_t ORDER BY transaction_id::text::bigint, "offset"`
