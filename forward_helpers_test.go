package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// patience is how long a test waits for a condition. It is not an assertion about time.
const patience = 30 * time.Second

// migrated gives a database with an outbox in it.
func migrated(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool := unmigrated(t)
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{}))
	return pool
}

func unmigrated(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return testdb.New(t)
}

// broker records what it acknowledges, in order.
type broker struct {
	mu       sync.Mutex
	messages []sent
	fail     func(topic string, msg *message.Message) error // before it acknowledges; may block
	changed  chan struct{}
}

type sent struct{ topic, key, uuid, payload string }

func newBroker() *broker { return &broker{changed: make(chan struct{})} }

func (b *broker) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if b.fail != nil {
			if err := b.fail(topic, msg); err != nil {
				return err
			}
		}
		b.mu.Lock()
		b.messages = append(b.messages, sent{topic, outbox.Key(msg), msg.UUID, string(msg.Payload)})
		close(b.changed)
		b.changed = make(chan struct{})
		b.mu.Unlock()
	}
	return nil
}

func (b *broker) Close() error { return nil }

func (b *broker) all() []sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]sent(nil), b.messages...)
}

func (b *broker) payloads(key string) (out []string) {
	for _, m := range b.all() {
		if m.key == key {
			out = append(out, m.payload)
		}
	}
	return out
}

// await waits until so many messages were acknowledged.
func (b *broker) await(t testing.TB, n int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		b.mu.Lock()
		have, changed := len(b.messages), b.changed
		b.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the broker has %d messages, %d were expected", have, n)
		}
	}
}

// put writes messages of one key in a transaction of their own.
func put(t testing.TB, pool *pgxpool.Pool, topic, key string, payloads ...string) {
	t.Helper()
	require.NoError(t, write(t.Context(), pool, topic, key, payloads...))
}

func write(ctx context.Context, db outbox.PgxExecutor, topic, key string, payloads ...string) error {
	publisher, err := outbox.NewPgxPublisher(db, outbox.PublisherConfig{}, nil)
	if err != nil {
		return err
	}
	var messages []*message.Message
	for _, payload := range payloads {
		msg := message.NewMessage("", []byte(payload))
		outbox.SetKey(msg, key)
		messages = append(messages, msg)
	}
	if len(messages) > 0 {
		messages[0].SetContext(ctx)
	}
	return publisher.Publish(topic, messages...)
}

func numbered(from, to int) (out []string) {
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func forwarder(t testing.TB, pool *pgxpool.Pool, publisher message.Publisher, config outbox.ForwarderConfig) *outbox.Forwarder {
	t.Helper()
	f, err := outbox.NewForwarder(pool, publisher, config, nil)
	require.NoError(t, err)
	return f
}

// start runs a forwarder until the test ends, or until its own Close.
func start(t testing.TB, f *outbox.Forwarder) *outbox.Forwarder {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.WithoutCancel(t.Context())) }()
	select {
	case <-f.Running():
	case err := <-ended:
		t.Fatalf("Run returned %v", err)
	}
	t.Cleanup(func() {
		require.NoError(t, f.Close())
		require.NoError(t, <-ended)
	})
	return f
}

// setForDatabase changes a setting for all sessions that begin from now on.
func setForDatabase(t testing.TB, pool *pgxpool.Pool, setting string) {
	t.Helper()
	var name string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name))
	_, err := pool.Exec(t.Context(), `ALTER DATABASE `+pgx.Identifier{name}.Sanitize()+` SET `+setting)
	require.NoError(t, err)
}

func count(t testing.TB, pool *pgxpool.Pool, where string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM public.outbox WHERE `+where).Scan(&n))
	return n
}

// eventually waits for a condition on the database.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(5 * time.Millisecond); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// dead lists the dead letters in order, as payload|attempts|error|tail.
func dead(t testing.TB, pool *pgxpool.Pool) (letters []string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT convert_from(payload, 'UTF8') || '|' || attempts || '|' || last_error || '|' || tail FROM public.outbox_dead ORDER BY id`)
	require.NoError(t, err)
	letters, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return letters
}
