package sql_test

import (
	"context"
	"sync"
	"testing"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	suite "github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/sql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestUniversalSuite(t *testing.T) {
	url := with(testdb.Create(t, testdb.Dedicated(t, "max_connections=400")), "search_path=public&poll_interval=5ms")
	pair := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		b, err := broker.NewMux(sql.Driver{}).Open(t.Context(), url, broker.Options{Group: group})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		s, err := b.Subscriber()
		require.NoError(t, err)
		return b.Publisher(), &punctual{Subscriber: s, closing: make(chan struct{})}
	}
	suite.TestPubSub(t, suite.Features{
		ConsumerGroups: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true, Persistent: true, ForceShort: true,
	}, func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		return pair(t, "one")
	}, pair)
}

// punctual is a subscriber whose channels are closed when Close returns. watermill-sql's Close returns a moment before,
// which the suite now and then takes for a channel left open.
type punctual struct {
	message.Subscriber
	closing  chan struct{}
	close    sync.Once
	relaying sync.WaitGroup
}

// SubscribeInitialize passes it on.
func (p *punctual) SubscribeInitialize(topic string) error {
	return p.Subscriber.(message.SubscribeInitializer).SubscribeInitialize(topic)
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

func TestEachGroupGetsAllFromTheOldestOnAndANackComesAgain(t *testing.T) {
	url := newDatabase(t)
	publish(t, open(t, url, ""), "t", "1", "2")
	one := subscribe(t, open(t, url, "one"), "t")
	msg := next(t, one)
	require.True(t, msg.Nack())
	require.Equal(t, []string{"1", "2"}, read(t, one, 2))
	publish(t, open(t, url, ""), "t", "3")
	require.Equal(t, []string{"3"}, read(t, one, 1))
	require.Equal(t, []string{"1", "2", "3"}, read(t, subscribe(t, open(t, url, "two"), "t"), 3))
}

func TestWhatASubscriberDidNotAckGoesToAnotherOfTheGroup(t *testing.T) {
	url := newDatabase(t)
	first, second := open(t, url, "g"), open(t, url, "g")
	publish(t, first, "t", "1", "2")
	require.Equal(t, "1", string(next(t, subscribe(t, first, "t")).Payload))
	messages := subscribe(t, second, "t")
	require.NoError(t, first.Close())
	require.Equal(t, []string{"1", "2"}, read(t, messages, 2))
}

func TestAnyPayloadAndNamesArriveAsTheyWereInAnyMode(t *testing.T) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			b := open(t, with(newDatabase(t), "default_query_exec_mode="+mode), "g")
			sent := []*message.Message{
				message.NewMessage("1", nil), message.NewMessage("2", []byte{}), message.NewMessage("3", []byte{0, 0xff, '\\', '"'}),
				message.NewMessage("4", []byte(`{"a":1}`)),
			}
			sent[1].Metadata = nil
			sent[2].Metadata = message.Metadata{`na"me`: "ü\n"}
			require.NoError(t, b.Publisher().Publish("t", sent...))
			messages := subscribe(t, b, "t")
			for _, want := range sent {
				got := next(t, messages)
				require.Equal(t, want.UUID, got.UUID)
				require.Equal(t, want.Payload, got.Payload)
				require.NotNil(t, got.Metadata, "a handler may set some")
				require.Len(t, got.Metadata, len(want.Metadata))
				require.Equal(t, want.Metadata.Get(`na"me`), got.Metadata.Get(`na"me`))
				got.Ack()
			}
		})
	}
}

func TestWatermillSQLReadsWhatWeWriteAndWritesWhatWeRead(t *testing.T) {
	url := newDatabase(t)
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	db := stdlib.OpenDB(*config)
	defer func() { require.NoError(t, db.Close()) }()
	publisher, err := wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: wsql.DefaultPostgreSQLSchema{}, AutoInitializeSchema: true}, nil)
	require.NoError(t, err)
	subscriber, err := wsql.NewSubscriber(db, wsql.SubscriberConfig{
		ConsumerGroup: "theirs", SchemaAdapter: wsql.DefaultPostgreSQLSchema{}, OffsetsAdapter: wsql.DefaultPostgreSQLOffsetsAdapter{},
	}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, subscriber.Close()) }()
	b := open(t, url, "ours")

	publish(t, b, "t", "no JSON")
	theirs := message.NewMessage("1", []byte("no JSON either"))
	theirs.Metadata.Set("name", "value")
	require.NoError(t, publisher.Publish("t", theirs))
	messages, err := subscriber.Subscribe(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []string{"no JSON", "no JSON either"}, read(t, messages, 2))
	ours := subscribe(t, b, "t")
	read(t, ours, 1)
	msg := next(t, ours)
	require.Equal(t, "value", msg.Metadata.Get("name"))
	msg.Ack()

	// A table of theirs, with its JSON.
	require.NoError(t, publisher.Publish("u", message.NewMessage("1", []byte(`{"n":1}`))))
	verdicts := publishBatch(t, b, outgoing("u", "", `{"n":2}`), outgoing("u", "", `no JSON`), outgoing("u", "", `{"n":3}`))
	require.NoError(t, verdicts[0])
	require.Equal(t, outbox.FailurePermanent, b.Classify(verdicts[1]))
	require.NoError(t, verdicts[2])
	require.Equal(t, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}, read(t, subscribe(t, b, "u"), 3))
}

func TestAllGoesOnWhenTheServerIsBack(t *testing.T) {
	server := testdb.Dedicated(t)
	b := open(t, with(testdb.Create(t, server), "search_path=public"), "g")
	publish(t, b, "t", "1")
	messages := subscribe(t, b, "t")
	require.Equal(t, []string{"1"}, read(t, messages, 1))
	for _, want := range []string{"restarted", "killed"} {
		if want == "killed" {
			require.NoError(t, server.Kill())
			for range 3 { // the first by a connection that was made before
				for _, err := range publishBatch(t, b, outgoing("t", "", "lost"), outgoing("u", "", "lost")) {
					require.Error(t, err)
					require.Equal(t, outbox.FailureOutage, b.Classify(err), "%v", err)
				}
			}
		}
		require.NoError(t, server.Restart(t.Context()))
		deadline := time.Now().Add(patience)
		for {
			err := b.Publisher().Publish("t", outgoing("", "", want).Message)
			if err == nil {
				break
			}
			require.Equal(t, outbox.FailureOutage, b.Classify(err), "%v", err)
			require.True(t, time.Now().Before(deadline), "%v", err)
		}
		// What was acked last may come again.
		got := read(t, messages, 1)[0]
		for got != want {
			got = read(t, messages, 1)[0]
		}
	}
}
