package sqlv4_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
	"github.com/watermill-outbox/watermill-outbox/sqlv4"
)

// patience is how long a test waits for a condition. It is not an assertion about time.
const patience = 30 * time.Second

func TestMain(m *testing.M) { testdb.Main(m) }

// drivers are v4's ways to a database, each with so many connections.
var drivers = map[string]func(t testing.TB, url string, connections int) wsql.Beginner{
	"pq":     overSQL("postgres"),
	"stdlib": overSQL("pgx"),
	"pgx": func(t testing.TB, url string, connections int) wsql.Beginner {
		t.Helper()
		return wsql.BeginnerFromPgx(testdb.Open(t, url, func(c *pgxpool.Config) { c.MaxConns = int32(connections) }))
	},
}

func overSQL(driver string) func(t testing.TB, url string, connections int) wsql.Beginner {
	return func(t testing.TB, url string, connections int) wsql.Beginner {
		t.Helper()
		db, err := sql.Open(driver, url)
		require.NoError(t, err)
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return wsql.BeginnerFromStdSQL(db)
	}
}

// odd is a schema whose names need quoting everywhere, and that no search_path finds.
var odd = outbox.Schema{Name: `it's`, Table: `Out \ "box"`, TopicIndex: true}

// adapted is an outbox on which v4's publisher and subscriber work, by one of the drivers.
type adapted struct {
	t      *testing.T // the driver's own
	schema outbox.Schema
	pool   *pgxpool.Pool // the test's own way to the database, with an empty search_path
	db     wsql.Beginner
}

// eachDriver tests with every driver, on a database of its own.
func eachDriver(t *testing.T, do func(a adapted)) {
	t.Helper()
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testdb.URL(t)
			do(newAdapted(t, testdb.Open(t, url), open(t, url, 10)))
		})
	}
}

func newAdapted(t *testing.T, pool *pgxpool.Pool, db wsql.Beginner) adapted {
	t.Helper()
	require.NoError(t, outbox.Migrate(t.Context(), pool, odd))
	return adapted{t: t, schema: odd, pool: pool, db: db}
}

func (a adapted) publisher() *wsql.Publisher {
	a.t.Helper()
	publisher, err := wsql.NewPublisher(a.db, wsql.PublisherConfig{
		SchemaAdapter: sqlv4.SchemaAdapter{Schema: a.schema}, AutoInitializeSchema: true,
	}, nil)
	require.NoError(a.t, err)
	return publisher
}

// put publishes messages of one key in one call.
func (a adapted) put(key string, payloads ...string) {
	a.t.Helper()
	var messages []*message.Message
	for _, payload := range payloads {
		msg := message.NewMessage("", []byte(payload))
		outbox.SetKey(msg, key)
		messages = append(messages, msg)
	}
	require.NoError(a.t, a.publisher().Publish("orders", messages...))
}

// subscriber gives one that takes so many messages at a time, closed when the test ends.
func (a adapted) subscriber(batch int, changes ...func(*wsql.SubscriberConfig)) *wsql.Subscriber {
	a.t.Helper()
	const interval = 5 * time.Millisecond
	config := wsql.SubscriberConfig{
		SchemaAdapter:  sqlv4.SchemaAdapter{Schema: a.schema, BatchSize: batch},
		OffsetsAdapter: sqlv4.OffsetsAdapter{Schema: a.schema},
		PollInterval:   interval, ResendInterval: interval, RetryInterval: interval, InitializeSchema: true,
	}
	for _, change := range changes {
		change(&config)
	}
	s, err := wsql.NewSubscriber(a.db, config, nil)
	require.NoError(a.t, err)
	a.t.Cleanup(func() { require.NoError(a.t, s.Close()) })
	return s
}

func (a adapted) subscribe(batch int) <-chan *message.Message {
	a.t.Helper()
	messages, err := a.subscriber(batch).Subscribe(context.WithoutCancel(a.t.Context()), "orders")
	require.NoError(a.t, err)
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

func (a adapted) count(where string) (n int) {
	a.t.Helper()
	require.NoError(a.t, a.pool.QueryRow(a.t.Context(), `SELECT count(*) FROM `+a.schema.String()+` WHERE `+where).Scan(&n))
	return n
}

func (a adapted) awaitCount(n int) {
	a.t.Helper()
	eventually(a.t, "the acked messages are settled, and no others", func() bool { return a.count("true") == n })
}

func (a adapted) execute(statement string, args ...any) {
	a.t.Helper()
	_, err := a.pool.Exec(a.t.Context(), statement, args...)
	require.NoError(a.t, err)
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-tick.C
	}
}

func numbered(from, to int) (out []string) {
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}
