package tests

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	suite "github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// suiteInterval is how often a subscriber polls and resends here. At watermill-sql's second one test takes minutes.
const suiteInterval = 5 * time.Millisecond

// Watermill's universal suite, over watermill-sql's own Publisher and Subscriber on the outbox's table.
func TestUniversalSuiteOverTheSchemaAdapter(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			url := testdb.URL(t)
			migrateAs(t, testdb.Open(t, url), outbox.Schema{TopicIndex: true})
			db := openSQL(t, driver, url, 60) // a test of the suite has fifty subscribers, each with a transaction
			features := suite.Features{Persistent: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true}
			suite.TestPubSub(t, features, func(t *testing.T) (message.Publisher, message.Subscriber) {
				t.Helper()
				return adapted(t, db, outbox.Schema{})
			}, nil)
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
func adapted(t testing.TB, db *sql.DB, schema outbox.Schema) (*wsql.Publisher, *punctual) {
	t.Helper()
	publisher, err := wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: outbox.SchemaAdapter{Schema: schema}}, nil)
	require.NoError(t, err)
	subscriber, err := wsql.NewSubscriber(db, wsql.SubscriberConfig{
		SchemaAdapter: outbox.SchemaAdapter{Schema: schema}, OffsetsAdapter: outbox.OffsetsAdapter{Schema: schema},
		PollInterval: suiteInterval, ResendInterval: suiteInterval, RetryInterval: suiteInterval,
	}, nil)
	require.NoError(t, err)
	return publisher, &punctual{Subscriber: subscriber, closing: make(chan struct{})}
}

// punctual is watermill-sql's subscriber whose channels are closed when Close returns. Its own Close returns a moment
// before, which the suite now and then takes for a channel left open.
type punctual struct {
	*wsql.Subscriber
	closing  chan struct{}
	close    sync.Once
	relaying sync.WaitGroup
}

// Subscribe passes the messages on.
func (p *punctual) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := p.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	p.relaying.Go(func() {
		defer close(out)
		for msg := range in {
			select {
			case out <- msg:
			case <-p.closing:
			case <-ctx.Done():
			}
		}
	})
	return out, nil
}

// Close waits for the ends of the channels.
func (p *punctual) Close() error {
	p.close.Do(func() { close(p.closing) })
	defer p.relaying.Wait()
	return p.Subscriber.Close()
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
		Schema: schema, Workers: 1, PollInterval: 4 * suiteInterval, PollOnly: true,
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
