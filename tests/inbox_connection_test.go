package tests

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// branch is a consumer that books an order and publishes a message about it, behind a proxy.
type branch struct {
	pool      *pgxpool.Pool // the test's own way to the database
	proxy     *proxy
	inbox     *outbox.Inbox
	publisher *outbox.Publisher
	skipped   int
}

// onEachDriver runs a test on a branch of its own with each driver.
func onEachDriver(t *testing.T, drivers []string, test func(t *testing.T, b *branch)) {
	t.Helper()
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			url := testdb.URL(t)
			b := &branch{pool: testdb.Open(t, url), proxy: newProxy(t, url)}
			migrate(t, b.pool)
			execute(t, b.pool, `CREATE TABLE public.booked (order_id text NOT NULL)`)
			execute(t, b.pool, `CREATE TABLE public.totals (shard int PRIMARY KEY, orders int NOT NULL)`)
			var err error
			b.publisher, err = outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
			require.NoError(t, err)
			inbox, closeDatabase, err := openInbox(t.Context(), childOrder{URL: b.proxy.url, Driver: driver}, outbox.InboxConfig{
				Consumer: "branch", TxTimeout: 5 * time.Second, OnDuplicate: func(*message.Message) { b.skipped++ },
			})
			require.NoError(t, err)
			t.Cleanup(closeDatabase)
			b.inbox = inbox
			require.NoError(t, b.receive(t, "warm up", nil), "so that statements are prepared and there is a connection")
			test(t, b)
		})
	}
}

const (
	driverPgx    = "pgx"
	driverStdlib = "pgx/stdlib"
	driverPq     = "postgres"
)

var everyDriver = []string{driverPgx, driverStdlib, driverPq}

// receive handles a message; then does something after its effects.
func (b *branch) receive(t *testing.T, id string, then func()) error {
	t.Helper()
	_, err := b.inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		if err := book(msg.Context(), msg.UUID); err != nil {
			return nil, err
		}
		if err := b.publisher.Publish(topic, message.NewMessageWithContext(msg.Context(), "", []byte(id))); err != nil {
			return nil, err
		}
		if then != nil {
			then()
		}
		return nil, nil
	})(message.NewMessageWithContext(t.Context(), id, nil))
	return err
}

// requireEffects checks that the message took effect so many times, in all places.
func (b *branch) requireEffects(t *testing.T, id string, n int) {
	t.Helper()
	for _, from := range []string{
		"public.booked WHERE order_id = $1", "public.outbox WHERE convert_from(payload, 'UTF8') = $1", "public.outbox_inbox WHERE message_id = $1",
	} {
		var have int
		require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+from, id).Scan(&have))
		require.Equal(t, n, have, from)
	}
}

// redelivered comes again until it is acknowledged, as from a broker.
func (b *branch) redelivered(t *testing.T, id string, skips int) {
	t.Helper()
	eventually(t, "the message is acknowledged", func() bool { return b.receive(t, id, nil) == nil })
	b.requireEffects(t, id, 1)
	require.Equal(t, skips, b.skipped)
}

func TestAConnectionCutBeforeTheInboxBegins(t *testing.T) {
	onEachDriver(t, everyDriver, func(t *testing.T, b *branch) {
		b.proxy.Stop()
		require.Error(t, b.receive(t, "a", nil))
		b.requireEffects(t, "a", 0)
		require.NoError(t, b.proxy.Start())
		b.redelivered(t, "a", 0)
	})
}

func TestTheAnswerToTheInboxsBeginIsLost(t *testing.T) {
	onEachDriver(t, everyDriver, func(t *testing.T, b *branch) {
		heal := b.proxy.loseAnswers(t)
		require.Error(t, b.receive(t, "a", nil))
		heal()
		b.redelivered(t, "a", 0)
	})
}

func TestAConnectionCutBeforeTheInboxCommits(t *testing.T) {
	onEachDriver(t, everyDriver, func(t *testing.T, b *branch) {
		require.Error(t, b.receive(t, "a", b.proxy.Stop))
		b.requireEffects(t, "a", 0)
		require.NoError(t, b.proxy.Start())
		b.redelivered(t, "a", 0)
	})
}

// The effects are there, but the consumer does not get to know, and the broker sends the message again.
func TestTheAnswerToTheInboxsCommitIsLost(t *testing.T) {
	onEachDriver(t, everyDriver, func(t *testing.T, b *branch) {
		var heal func()
		require.Error(t, b.receive(t, "a", func() { heal = b.proxy.loseAnswers(t) }))
		b.requireEffects(t, "a", 1)
		heal()
		b.redelivered(t, "a", 1)
	})
}

// Nobody closes anything. TxTimeout ends the wait; not with lib/pq, which asks the server to cancel and waits.
func TestABlackHoleSwallowsTheInboxsCommit(t *testing.T) {
	onEachDriver(t, []string{driverPgx, driverStdlib}, func(t *testing.T, b *branch) {
		var heal func()
		err := b.receive(t, "a", func() { _, heal = b.proxy.swallow(t, toServer) })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		heal()
		b.redelivered(t, "a", 0)
	})
}
