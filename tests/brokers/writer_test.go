package brokers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const keys = 3 // and one message without a key beside them

// writer writes numbered messages to a topic, in transactions, and notes what was committed.
type writer struct {
	pool  *pgxpool.Pool
	topic string

	mu      sync.Mutex
	next    int
	written map[string][]string
}

func newWriter(t testing.TB, pool *pgxpool.Pool, topic string) *writer {
	t.Helper()
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{}))
	return &writer{pool: pool, topic: topic, written: map[string][]string{}}
}

var errRolledBack = errors.New("rolled back")

// write commits so many transactions, each with a message of each key; one that is rolled back goes before each.
func (w *writer) write(t testing.TB, transactions int) {
	t.Helper()
	for range transactions {
		require.ErrorIs(t, w.transaction(t.Context(), errRolledBack), errRolledBack)
		require.NoError(t, w.transaction(t.Context(), nil))
	}
}

// transaction writes one, which fails in the end with an error.
func (w *writer) transaction(ctx context.Context, fail error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	number := fmt.Sprintf("%05d", w.next)
	if fail != nil {
		number = "never"
	}
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		for k := range keys + 1 {
			if err := put(ctx, tx, w.topic, keyName(k), number+" of "+keyName(k)); err != nil {
				return err
			}
		}
		return fail
	})
	if err == nil {
		w.next++
		for k := range keys + 1 {
			w.written[keyName(k)] = append(w.written[keyName(k)], number+" of "+keyName(k))
		}
	}
	return err
}

// keyName gives "" for the last.
func keyName(n int) string {
	if n == keys {
		return ""
	}
	return fmt.Sprint("key ", n)
}

func put(ctx context.Context, db outbox.PgxExecutor, topic, key, payload string) error {
	publisher, err := outbox.NewPgxPublisher(db, outbox.PublisherConfig{}, nil)
	if err != nil {
		return err
	}
	msg := message.NewMessageWithContext(ctx, watermill.NewULID(), []byte(payload))
	msg.Metadata.Set("note", "naïve → "+payload)
	outbox.SetKey(msg, key)
	return publisher.Publish(topic, msg)
}

// total is the number of messages that were committed.
func (w *writer) total() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next * (keys + 1)
}
