package sql_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/sql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// patience is how long a test waits for a condition. It is not an assertion about time.
const patience = 60 * time.Second

func TestMain(m *testing.M) { testdb.Main(m) }

// with gives a database's URL with one more parameter, and the tables in schema public.
func with(t testing.TB, databaseURL string, parameters ...string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	query := u.Query()
	query.Set("schema", "public")
	for i := 0; i < len(parameters); i += 2 {
		query.Set(parameters[i], parameters[i+1])
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// open opens a database for a group that may be empty.
func open(t testing.TB, brokerURL, group string) broker.Broker {
	t.Helper()
	b, err := broker.NewMux(sql.Driver{}).Open(t.Context(), brokerURL, broker.Options{Group: group})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func outgoing(topic, key, payload string) outbox.Outgoing {
	msg := message.NewMessage(watermill.NewULID(), []byte(payload))
	outbox.SetKey(msg, key)
	return outbox.Outgoing{Topic: topic, Key: key, Message: msg}
}

// tooLong gives a message with a uuid that the column can't take.
func tooLong(topic, key string) outbox.Outgoing {
	out := outgoing(topic, key, "too long")
	out.Message.UUID = fmt.Sprintf("%037d", 1)
	return out
}

func publishBatch(t testing.TB, b broker.Broker, batch ...outbox.Outgoing) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, batch)
}

// stored gives the payloads of a topic, in order.
func stored(t testing.TB, pool *pgxpool.Pool, topic string) []string {
	t.Helper()
	table := pgx.Identifier{"public", "watermill_" + topic}.Sanitize()
	rows, err := pool.Query(t.Context(), `SELECT payload FROM `+table+` ORDER BY transaction_id, "offset"`)
	require.NoError(t, err)
	payloads, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	require.NoError(t, err)
	texts := []string{}
	for _, payload := range payloads {
		texts = append(texts, string(payload))
	}
	return texts
}

func execute(t testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
}

func subscribe(t testing.TB, b broker.Broker, topic string) <-chan *message.Message {
	t.Helper()
	subscriber, err := b.Subscriber()
	require.NoError(t, err)
	messages, err := subscriber.Subscribe(context.WithoutCancel(t.Context()), topic)
	require.NoError(t, err)
	return messages
}

// next gives the next message, neither acked nor nacked.
func next(t testing.TB, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-messages:
		require.True(t, ok, "the subscription ended")
		return msg
	case <-time.After(patience):
		t.Fatal("waited in vain for a message")
		return nil
	}
}

// take acks the next messages, and gives their payloads.
func take(t testing.TB, messages <-chan *message.Message, n int) (payloads []string) {
	t.Helper()
	for range n {
		msg := next(t, messages)
		payloads = append(payloads, string(msg.Payload))
		msg.Ack()
	}
	return payloads
}
