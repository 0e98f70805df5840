package sqlv4_test

import (
	"context"
	"sync"
	"testing"
	"time"

	v3 "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// counter counts the messages that come to a consumer, or to a broker.
type counter struct {
	mu    sync.Mutex
	times map[string]int
}

// Publish implements message.Publisher.
func (c *counter) Publish(_ string, messages ...*message.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, msg := range messages {
		c.times[string(msg.Payload)]++
	}
	return nil
}

// Close implements message.Publisher.
func (c *counter) Close() error { return nil }

func (c *counter) consume(messages <-chan *message.Message) {
	for msg := range messages {
		_ = c.Publish("", msg)
		msg.Ack()
	}
}

// Subscribers of both versions and a Forwarder: each message goes to one of them.
func TestBothVersionsAndAForwarderShareATable(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	a := newAdapted(t, testdb.Open(t, url), drivers["pgx"](t, url, 10))
	got := &counter{times: map[string]int{}}
	go got.consume(a.subscribe(3))

	db := stdlib.OpenDBFromPool(a.pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	older, err := v3.NewSubscriber(db, v3.SubscriberConfig{
		SchemaAdapter:  outbox.SchemaAdapter{Schema: a.schema, BatchSize: 3},
		OffsetsAdapter: outbox.OffsetsAdapter{Schema: a.schema}, PollInterval: 5 * time.Millisecond,
	}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, older.Close()) })
	messages, err := older.Subscribe(context.WithoutCancel(t.Context()), "orders")
	require.NoError(t, err)
	go got.consume(messages)

	forwarder, err := outbox.NewForwarder(a.pool, got, outbox.ForwarderConfig{
		Schema: a.schema, Workers: 1, BatchSize: 3, PollInterval: 5 * time.Millisecond,
	}, nil)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- forwarder.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		require.NoError(t, forwarder.Close())
		require.NoError(t, <-ended)
	})

	want := map[string]int{}
	for _, payload := range numbered(1, 300) {
		want[payload] = 1
	}
	a.put("", numbered(1, 100)...)
	a.put("a", numbered(101, 200)...)
	a.put("b", numbered(201, 300)...)
	a.awaitCount(0)
	got.mu.Lock()
	defer got.mu.Unlock()
	require.Equal(t, want, got.times)
}
