package tests

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	suite "github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/suitetest"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// Watermill's universal suite, over watermill-sql's own Publisher and Subscriber on the outbox's table.
func TestUniversalSuiteOverTheSchemaAdapter(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			url := testdb.URL(t)
			migrateAs(t, testdb.Open(t, url), outbox.Schema{TopicIndex: true})
			db := openSQL(t, driver, url, suitetest.Connections)
			suitetest.OverTable(t, false, func(t *testing.T) (message.Publisher, suitetest.Subscriber) {
				t.Helper()
				return adapted(t, db)
			})
		})
	}
}

// The same suite from our Publisher through a Forwarder into a GoChannel. Every message goes all the way, and Close and
// contexts are as Watermill wants them. About order it proves nothing: a GoChannel promises none.
func TestUniversalSuiteOverTheForwarder(t *testing.T) {
	pool := testdb.Open(t, testdb.URL(t), connections(60))
	features := suite.Features{ExactlyOnceDelivery: true, RequireSingleInstance: true} // a GoChannel's own
	suite.TestPubSub(t, features, func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		return forwarded(t, pool, gochannel.Config{OutputChannelBuffer: 10_000, Persistent: true})
	}, nil)
}

// adapted gives watermill-sql's publisher and subscriber, on the outbox.
func adapted(t testing.TB, db *sql.DB) (*wsql.Publisher, *wsql.Subscriber) {
	t.Helper()
	publisher, err := wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: outbox.SchemaAdapter{}}, nil)
	require.NoError(t, err)
	subscriber, err := wsql.NewSubscriber(db, wsql.SubscriberConfig{
		SchemaAdapter: outbox.SchemaAdapter{}, OffsetsAdapter: outbox.OffsetsAdapter{},
		PollInterval: suitetest.Interval, ResendInterval: suitetest.Interval, RetryInterval: suitetest.Interval,
	}, nil)
	require.NoError(t, err)
	return publisher, subscriber
}

// forwarded gives our publisher, and a subscriber of the GoChannel to which a forwarder of its own leads. The forwarder
// ends with the subscriber, or with the test.
func forwarded(t testing.TB, pool *pgxpool.Pool, config gochannel.Config) (*outbox.Publisher, message.Subscriber) {
	t.Helper()
	schema := outbox.Schema{Name: testdb.Random("suite_"), NoDoorbell: true}
	migrateAs(t, pool, schema)
	publisher, err := outbox.NewPgxPublisher(pool, outbox.PublisherConfig{Schema: schema}, nil)
	require.NoError(t, err)
	channel := gochannel.NewGoChannel(config, nil)
	f, err := outbox.NewForwarder(pool, channel, outbox.ForwarderConfig{
		Schema: schema, Workers: 1, PollInterval: 4 * suitetest.Interval, PollOnly: true,
	}, nil)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.WithoutCancel(t.Context())) }()
	end := &endOfLine{Subscriber: channel, end: sync.OnceValue(func() error {
		if err := f.Close(); err != nil {
			return err
		}
		if err := <-ended; err != nil {
			return err
		}
		return channel.Close()
	})}
	await(t, "the forwarder runs", f.Running())
	t.Cleanup(func() { require.NoError(t, end.Close()) })
	return publisher, end
}

// endOfLine is a subscriber whose Close closes what leads to it.
type endOfLine struct {
	message.Subscriber
	end func() error
}

// Close closes it.
func (e *endOfLine) Close() error { return e.end() }

func migrateAs(t testing.TB, pool *pgxpool.Pool, schema outbox.Schema) {
	t.Helper()
	require.NoError(t, outbox.Migrate(t.Context(), pool, schema))
}

func openSQL(t testing.TB, driver, url string, connections int) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	require.NoError(t, err)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
