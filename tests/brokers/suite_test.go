package brokers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	suite "github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/all"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// Watermill's universal suite, from our Publisher through a Forwarder and a broker to the broker's subscriber.
func TestUniversalSuite(t *testing.T) {
	for _, p := range withAMQP(t) {
		t.Run(p.name, func(t *testing.T) {
			pool := testdb.Open(t, testdb.URL(t), func(c *pgxpool.Config) { c.MaxConns = 40 })
			url := p.shared(t)
			pair := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
				t.Helper()
				return forwarded(t, pool, url, group)
			}
			suite.TestPubSub(t, p.features, func(t *testing.T) (message.Publisher, message.Subscriber) {
				t.Helper()
				return pair(t, groupOf(t))
			}, pair)
		})
	}
}

// groupOf is the group of a test that does not care: the same one whenever it opens the broker again.
func groupOf(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("group-%x", sha256.Sum256([]byte(t.Name())))[:20]
}

// line is a way from a publisher to a subscriber: an outbox and a forwarder of its own, and a broker.
type line struct {
	message.Subscriber
	forwarder *outbox.Forwarder
	ended     chan error
	broker    broker.Broker
	drained   func() bool
	once      sync.Once
	err       error
}

// forwarded gives our publisher, and a subscriber of the broker's. What was published is forwarded before it is closed.
func forwarded(t *testing.T, pool *pgxpool.Pool, url, group string) (message.Publisher, message.Subscriber) {
	t.Helper()
	schema := outbox.Schema{Name: testdb.Random("suite_"), NoDoorbell: true}
	require.NoError(t, outbox.Migrate(t.Context(), pool, schema))
	publisher, err := outbox.NewPgxPublisher(pool, outbox.PublisherConfig{Schema: schema}, nil)
	require.NoError(t, err)
	b, err := all.Open(t.Context(), url, broker.Options{Group: group})
	require.NoError(t, err)
	subscriber, err := b.Subscriber()
	require.NoError(t, err)
	f, err := outbox.NewForwarder(pool, b.Publisher(), outbox.ForwarderConfig{
		Schema: schema, Workers: 1, PollInterval: 20 * time.Millisecond, PollOnly: true, Classify: b.Classify,
	}, nil)
	require.NoError(t, err)
	l := &line{Subscriber: subscriber, forwarder: f, ended: make(chan error, 1), broker: b, drained: func() bool {
		stats, err := outbox.ReadStats(context.WithoutCancel(t.Context()), pool, schema)
		return err == nil && stats.Ready+stats.Retrying+stats.Parked == 0
	}}
	go func() { l.ended <- f.Run(context.WithoutCancel(t.Context())) }()
	<-f.Running()
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	if initializer, ok := subscriber.(message.SubscribeInitializer); ok {
		return publisher, &initializing{line: l, SubscribeInitializer: initializer}
	}
	return publisher, l
}

// initializing is a line whose subscriber can prepare a topic.
type initializing struct {
	*line
	message.SubscribeInitializer
}

// Close forwards what is left, and closes the line.
func (l *line) Close() error {
	l.once.Do(func() {
		deadline := time.Now().Add(patience)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for !l.drained() {
			if time.Now().After(deadline) {
				l.err = errors.New("the outbox is not empty")
				break
			}
			<-tick.C
		}
		l.err = errors.Join(l.err, l.forwarder.Close(), <-l.ended, l.broker.Close())
	})
	return l.err
}
