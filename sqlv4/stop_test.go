package sqlv4_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

const batchOfStops = 20

// stopped is a table whose subscribers are stopped in the middle of a batch, again and again.
type stopped struct {
	t          *testing.T
	publish    func(messages ...*message.Message) error
	subscriber func() *wsql.Subscriber
	left       func() map[string]bool // what is in the table

	mu      sync.Mutex
	written []string
	acks    map[string]int // what was acked, and how often
}

// often stops subscribers: by Close, or by the end of their context; with one message delivered and not acked, or while
// messages are being acked.
func (s *stopped) often(rounds int) {
	s.acks = map[string]int{}
	for round := range rounds {
		if len(s.left()) < batchOfStops {
			s.write(200)
		}
		ctx, cancel := context.WithCancel(s.t.Context())
		subscriber := s.subscriber()
		messages, err := subscriber.Subscribe(ctx, "orders")
		require.NoError(s.t, err)
		for range rand.IntN(8) {
			s.ack(next(s.t, messages))
		}
		var consumer sync.WaitGroup
		if round%2 == 0 {
			next(s.t, messages)
		} else {
			consumer.Go(func() {
				for msg := range messages {
					s.ack(msg)
				}
			})
		}
		if round%4 < 2 {
			require.NoError(s.t, subscriber.Close())
		}
		cancel()
		consumer.Wait()
		require.NoError(s.t, subscriber.Close())
	}
}

func (s *stopped) write(n int) {
	more := numbered(len(s.written)+1, len(s.written)+n)
	s.written = append(s.written, more...)
	var messages []*message.Message
	for _, payload := range more {
		messages = append(messages, message.NewMessage(payload, []byte(payload)))
	}
	require.NoError(s.t, s.publish(messages...))
}

func (s *stopped) ack(msg *message.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if msg.Ack() {
		s.acks[string(msg.Payload)]++
	}
}

// lost are the messages that are gone and were never acked.
func (s *stopped) lost() (lost []string) {
	left := s.left()
	for _, payload := range s.written {
		if !left[payload] && s.acks[payload] == 0 {
			lost = append(lost, payload)
		}
	}
	return lost
}

func (s *stopped) again() (again int) {
	for _, times := range s.acks {
		again += times - 1
	}
	return again
}

// payloads gives what is in a table.
func payloads(t testing.TB, pool interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, table string) map[string]bool {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT convert_from(payload, 'UTF8') FROM `+table)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	set := map[string]bool{}
	for _, payload := range list {
		set[payload] = true
	}
	return set
}

func TestSubscriberStoppedInTheMiddleOfABatchSettlesNothingUnacked(t *testing.T) {
	t.Parallel()
	const rounds = 100
	eachDriver(t, func(a adapted) {
		t := a.t
		s := &stopped{
			t:          t,
			publish:    func(messages ...*message.Message) error { return a.publisher().Publish("orders", messages...) },
			subscriber: func() *wsql.Subscriber { return a.subscriber(batchOfStops) },
			left:       func() map[string]bool { return payloads(t, a.pool, a.schema.String()) },
		}
		s.write(1000)
		s.often(rounds)
		require.Empty(t, s.lost())
		require.NotEmpty(t, s.acks)
		messages := a.subscribe(batchOfStops)
		eventually(t, "everything is settled", func() bool {
			for {
				select {
				case msg := <-messages:
					s.ack(msg)
				case <-time.After(5 * time.Millisecond):
					return a.count("true") == 0
				}
			}
		})
		require.Empty(t, s.lost())
		require.Len(t, s.acks, len(s.written))
		t.Logf("%d messages, %d stops in the middle of a batch: none lost, %d acked ones came again", len(s.written), rounds, s.again())
	})
}

// The same treatment makes v4's own queue lose messages: its adapter settles all rows that it is told of.
func TestTheSameStopsMakeTheStockQueueLoseMessages(t *testing.T) {
	t.Parallel()
	const rounds = 20
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testdb.URL(t)
			pool, db := testdb.Open(t, url), open(t, url, 10)
			const table = `public.stock`
			schema := wsql.PostgreSQLQueueSchema{
				SubscribeBatchSize: batchOfStops, GenerateMessagesTableName: func(string) string { return table },
				GeneratePayloadType: func(string) string { return "BYTEA" },
			}
			publisher, err := wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: schema, AutoInitializeSchema: true}, nil)
			require.NoError(t, err)
			s := &stopped{
				t:       t,
				publish: func(messages ...*message.Message) error { return publisher.Publish("orders", messages...) },
				subscriber: func() *wsql.Subscriber {
					offsets := wsql.PostgreSQLQueueOffsetsAdapter{
						DeleteOnAck: true, GenerateMessagesTableName: schema.GenerateMessagesTableName,
					}
					return adapted{t: t, db: db}.subscriber(0, func(c *wsql.SubscriberConfig) {
						c.SchemaAdapter, c.OffsetsAdapter = schema, offsets
					})
				},
				left: func() map[string]bool { return payloads(t, pool, table) },
			}
			s.write(200)
			s.often(rounds)
			require.NotEmpty(t, s.lost())
			t.Logf("%d messages, %d stops in the middle of a batch: %d lost", len(s.written), rounds, len(s.lost()))
		})
	}
}

// When a message's time is up, the acked ones before it are settled, and it comes again.
func TestAckDeadlineSettlesWhatWasAckedBeforeIt(t *testing.T) {
	t.Parallel()
	deadline := 3 * time.Second
	url := testdb.URL(t)
	a := newAdapted(t, testdb.Open(t, url), drivers["pgx"](t, url, 10))
	a.put("", numbered(1, 5)...)
	s := a.subscriber(5, func(c *wsql.SubscriberConfig) { c.AckDeadline = &deadline })
	messages, err := s.Subscribe(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2"}, ack(t, messages, 2))
	require.Equal(t, "3", string(next(t, messages).Payload))
	again := next(t, messages)
	require.Equal(t, "3", string(again.Payload))
	require.Equal(t, 3, a.count("true"))
	again.Ack()
	require.Equal(t, []string{"4", "5"}, ack(t, messages, 2))
	a.awaitCount(0)
}
