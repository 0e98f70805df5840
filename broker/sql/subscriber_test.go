package sql_test

import (
	"context"
	databasesql "database/sql"
	"fmt"
	"sync"
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	suite "github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // pgx for database/sql
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestUniversalSuite(t *testing.T) {
	url := with(t, testdb.URL(t), "poll_interval", "20ms", "resend_interval", "5ms", "pool_max_conns", "4")
	pair := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		b := open(t, url, group)
		subscriber, err := b.Subscriber()
		require.NoError(t, err)
		return b.Publisher(), subscriber
	}
	suite.TestPubSub(t, suite.Features{
		ConsumerGroups: true, Persistent: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true, ForceShort: true,
	}, func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		return pair(t, testdb.Random("group_"))
	}, pair)
}

func TestGroups(t *testing.T) {
	url := with(t, testdb.URL(t))
	b := open(t, url, "")
	for n := range 10 {
		require.NoError(t, publishBatch(t, b, outgoing("topic", "", fmt.Sprint(n)))[0])
	}
	want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	for _, group := range []string{"one", "two"} {
		require.Equal(t, want, take(t, subscribe(t, open(t, url, group), "topic"), 10), "a new group begins with the oldest")
	}

	b = open(t, url, "three")
	one, two := subscribe(t, b, "topic"), subscribe(t, b, "topic")
	var mu sync.Mutex
	var got []string
	var done sync.WaitGroup
	done.Add(10)
	consume := func(messages <-chan *message.Message) {
		for msg := range messages {
			mu.Lock()
			got = append(got, string(msg.Payload))
			mu.Unlock()
			msg.Ack()
			done.Done() // a copy would be one too many, and panic
		}
	}
	go consume(one)
	go consume(two)
	done.Wait()
	require.Equal(t, want, got)
}

func TestANackedMessageComesAgainBeforeTheNext(t *testing.T) {
	b := open(t, with(t, testdb.URL(t), "resend_interval", "1ms"), "group")
	messages := subscribe(t, b, "topic")
	publishBatch(t, b, outgoing("topic", "k", "1"), outgoing("topic", "k", "2"))
	first := next(t, messages)
	require.Equal(t, "1", string(first.Payload))
	first.Nack()
	require.Equal(t, []string{"1", "2"}, take(t, messages, 2))
}

// What was acked before in the same batch does not come again, what was not does, also if it is acked too late.
func TestAStopInTheMiddleOfABatch(t *testing.T) {
	url := with(t, testdb.URL(t))
	b := open(t, url, "group")
	publishBatch(t, b, outgoing("topic", "", "1"), outgoing("topic", "", "2"), outgoing("topic", "", "3"))
	messages := subscribe(t, b, "topic")
	require.Equal(t, []string{"1"}, take(t, messages, 1))
	held := next(t, messages)
	require.Equal(t, "2", string(held.Payload))
	require.NoError(t, b.Close())
	held.Ack()
	require.Equal(t, []string{"2", "3"}, take(t, subscribe(t, open(t, url, "group"), "topic"), 2))
}

// One that waits for its turn waits in a query of its own, and has to end nevertheless.
func TestCloseDoesNotWaitForATurn(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	busy := open(t, with(t, url, "ack_deadline", "1h"), "group")
	publishBatch(t, busy, outgoing("topic", "", "1"))
	held := next(t, subscribe(t, busy, "topic"))
	waiting := open(t, with(t, url, "application_name", "waiting"), "group")
	messages := subscribe(t, waiting, "topic")
	require.Eventually(t, func() bool {
		var blocked int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = 'waiting' AND wait_event_type = 'Lock'`).Scan(&blocked))
		return blocked == 1
	}, patience, tick)
	require.NoError(t, waiting.Close())
	_, ok := <-messages
	require.False(t, ok)
	held.Ack()
}

// Where the tables are there, a subscriber needs no right to make some.
func TestRightsOfASubscriber(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	owner := open(t, with(t, url), "owner")
	subscribe(t, owner, "topic")
	publishBatch(t, owner, outgoing("topic", "", "1"))
	role, roleURL := testdb.Role(t, url)
	quoted := pgx.Identifier{role}.Sanitize()
	execute(t, pool, `REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT USAGE ON SCHEMA public TO `+quoted+`;
		GRANT SELECT ON public.watermill_topic TO `+quoted+`;
		GRANT SELECT, INSERT, UPDATE ON public.watermill_offsets_topic TO `+quoted)
	require.Equal(t, []string{"1"}, take(t, subscribe(t, open(t, with(t, roleURL), "group"), "topic"), 1))
}

func TestASubscriberThatIsClosed(t *testing.T) {
	b := open(t, with(t, testdb.URL(t)), "group")
	subscriber, err := b.Subscriber()
	require.NoError(t, err)
	require.NoError(t, subscriber.Close())
	require.NoError(t, subscriber.Close())
	_, err = subscriber.Subscribe(t.Context(), "topic")
	require.ErrorIs(t, err, broker.ErrClosed)
	_, err = open(t, with(t, testdb.URL(t)), "").Subscriber()
	require.ErrorIs(t, err, broker.ErrNoGroup)
}

// watermill-sql's own publisher and subscriber, with a payload of bytea.
func TestWatermillSQLUnderstandsUsAndWeIt(t *testing.T) {
	url := testdb.URL(t)
	ours := open(t, with(t, url), "ours")
	messages := subscribe(t, ours, "topic")
	pool := testdb.Open(t, url)
	execute(t, pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public', current_database()); END $$`)

	db, err := databasesql.Open("pgx", url)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	schema := wsql.DefaultPostgreSQLSchema{GeneratePayloadType: func(string) string { return "BYTEA" }}
	publisher, err := wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: schema, AutoInitializeSchema: true}, nil)
	require.NoError(t, err)
	theirs := outgoing("topic", "k", "theirs\x00\xff").Message
	require.NoError(t, publisher.Publish("topic", theirs))
	got := next(t, messages)
	require.Equal(t, theirs.UUID, got.UUID)
	require.Equal(t, theirs.Payload, got.Payload)
	require.Equal(t, theirs.Metadata, got.Metadata)
	got.Ack()

	require.NoError(t, ours.Publisher().Publish("topic", outgoing("", "k", "ours\x00\xff").Message))
	subscriber, err := wsql.NewSubscriber(db, wsql.SubscriberConfig{
		ConsumerGroup: "theirs", SchemaAdapter: schema, OffsetsAdapter: wsql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
	}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, subscriber.Close()) }()
	back, err := subscriber.Subscribe(context.WithoutCancel(t.Context()), "topic")
	require.NoError(t, err)
	require.Equal(t, []string{"theirs\x00\xff", "ours\x00\xff"}, take(t, back, 2))
}
