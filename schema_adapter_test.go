package outbox_test

import (
	"context"
	"database/sql"
	"maps"
	"testing"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// adapted is an outbox on which watermill-sql's publisher and subscriber work, by one of the drivers.
type adapted struct {
	t    *testing.T // the driver's own
	url  string
	pool *pgxpool.Pool // the test's own way to the database
	db   *sql.DB
}

// eachDriver tests with lib/pq and with pgx's stdlib.
func eachDriver(t *testing.T, do func(a adapted)) {
	t.Helper()
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			a := adapted{t: t, url: testdb.URL(t)}
			a.pool = testdb.Open(t, a.url)
			require.NoError(t, outbox.Migrate(t.Context(), a.pool, outbox.Schema{TopicIndex: true}))
			a.db = openSQL(t, driver, a.url)
			do(a)
		})
	}
}

type subscriberChange = func(*wsql.SubscriberConfig)

// batches sets how many messages a subscriber takes at a time.
func batches(size int) subscriberChange {
	return func(c *wsql.SubscriberConfig) { c.SchemaAdapter = outbox.SchemaAdapter{BatchSize: size} }
}

// subscriber gives one of watermill-sql's, closed when the test ends.
func (a adapted) subscriber(t testing.TB, changes ...subscriberChange) *wsql.Subscriber {
	t.Helper()
	const interval = 5 * time.Millisecond
	config := wsql.SubscriberConfig{
		SchemaAdapter: outbox.SchemaAdapter{}, OffsetsAdapter: outbox.OffsetsAdapter{},
		PollInterval: interval, ResendInterval: interval, RetryInterval: interval,
	}
	for _, change := range changes {
		change(&config)
	}
	s, err := wsql.NewSubscriber(a.db, config, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// subscribe gives the messages of a topic, for a subscriber of its own.
func (a adapted) subscribe(t testing.TB, topic string, changes ...subscriberChange) <-chan *message.Message {
	t.Helper()
	messages, err := a.subscriber(t, changes...).Subscribe(context.WithoutCancel(t.Context()), topic)
	require.NoError(t, err)
	return messages
}

// next gives the next message, not yet acked.
func next(t testing.TB, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, open := <-messages:
		require.True(t, open, "the subscription has ended")
		return msg
	case <-time.After(patience):
		t.Fatal("waited in vain for a message")
		return nil
	}
}

// ack acks the next messages and gives their payloads.
func ack(t testing.TB, messages <-chan *message.Message, n int) (payloads []string) {
	t.Helper()
	for range n {
		msg := next(t, messages)
		payloads = append(payloads, string(msg.Payload))
		require.True(t, msg.Ack())
	}
	return payloads
}

func (a adapted) awaitCount(t testing.TB, n int) {
	t.Helper()
	eventually(t, "the acked messages are settled", func() bool { return count(t, a.pool, "true") == n })
}

func TestSubscriberGetsMessagesInOrderAndSettlesThem(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		put(t, a.pool, "orders", "", numbered(1, 120)...)
		put(t, a.pool, "orders", "", numbered(121, 250)...)
		put(t, a.pool, "others", "", "not asked for")
		messages := a.subscribe(t, "orders")
		require.Equal(t, numbered(1, 250), ack(t, messages, 250))
		a.awaitCount(t, 1)
	})
}

func TestNackedMessageComesAgainAndIsNotSettled(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		put(t, a.pool, "orders", "", "1", "2")
		messages := a.subscribe(t, "orders")
		for range 3 {
			msg := next(t, messages)
			require.Equal(t, "1", string(msg.Payload))
			require.True(t, msg.Nack())
		}
		require.Equal(t, 2, count(t, a.pool, "true"))
		require.Equal(t, []string{"1", "2"}, ack(t, messages, 2))
		a.awaitCount(t, 0)
	})
}

func TestMessageComesAsItWasWritten(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		keyed := message.NewMessage("keyed", []byte{0, 1, 0xff})
		keyed.Metadata = message.Metadata{"quotes": `"\'`, "größe": "", "control": "\x01\n"}
		outbox.SetKey(keyed, `k"\{},`)
		publisher, err := wsql.NewPublisher(a.db, wsql.PublisherConfig{SchemaAdapter: outbox.SchemaAdapter{}}, nil)
		require.NoError(t, err)
		sent := []*message.Message{keyed, message.NewMessage("nil", nil), message.NewMessage("empty", message.Payload{})}
		require.NoError(t, publisher.Publish("orders", sent...))
		require.NoError(t, publisher.Publish("orders", sent[1]))
		require.NoError(t, publisher.Publish("orders", sent[2]))
		messages := a.subscribe(t, "orders")
		for _, want := range append(sent, sent[1:]...) {
			msg := next(t, messages)
			require.Equal(t, want.UUID, msg.UUID)
			require.Equal(t, want.Payload, msg.Payload, "nil and empty are different")
			require.Equal(t, want.Metadata, msg.Metadata)
			msg.Ack()
		}
	})
}

func TestWhatSomebodysSQLWroteStopsNoTopic(t *testing.T) {
	t.Parallel()
	const raw = outbox.RawMetadata
	rows := []struct {
		metadata string
		want     message.Metadata
	}{
		{`{}`, message.Metadata{}},
		{`{"n": 1.50, "null": null, "list": [1, "x"], "text": "\u00fc\n"}`,
			message.Metadata{"n": "1.50", "null": "null", "list": `[1, "x"]`, "text": "ü\n"}},
		{`null`, message.Metadata{raw: `null`}},
		{`[1, 2]`, message.Metadata{raw: `[1, 2]`}},
		{`"text"`, message.Metadata{raw: `"text"`}},
		{`17`, message.Metadata{raw: `17`}},
	}
	eachDriver(t, func(a adapted) {
		t := a.t
		for _, row := range rows {
			execute(t, a.pool, `INSERT INTO public.outbox (topic, uuid, key, metadata) VALUES ('orders', '', 'k', `+quote(row.metadata)+`)`)
		}
		execute(t, a.pool, `INSERT INTO public.outbox (topic, uuid, metadata)
			VALUES ('orders', 'deep', (repeat('[', 3000) || repeat(']', 3000))::jsonb)`,
			`INSERT INTO public.outbox (id, topic, uuid) VALUES (0, 'orders', 'zero'), (-1, 'orders', 'negative')`)
		messages := a.subscribe(t, "orders")
		for _, uuid := range []string{"negative", "zero"} {
			msg := next(t, messages)
			require.Equal(t, uuid, msg.UUID)
			msg.Ack()
		}
		for _, row := range rows {
			msg := next(t, messages)
			want := maps.Clone(row.want) // the drivers run side by side
			want[outbox.KeyMetadata] = "k"
			require.Equal(t, want, msg.Metadata, row.metadata)
			require.Nil(t, msg.Payload)
			msg.Ack()
		}
		deep := next(t, messages)
		require.Len(t, deep.Metadata[raw], 6000)
		deep.Ack()
		a.awaitCount(t, 0)
	})
}
