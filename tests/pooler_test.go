package tests

import (
	"database/sql"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// poolerModes are those that need nothing which a pooler in transaction mode would lose.
var poolerModes = []string{"cache_describe", "describe_exec", "exec", "simple_protocol"}

// pooling is a database behind a PgBouncer that gives each transaction another connection, and refuses start-up parameters
// that it does not know. Without one, the same must be right directly.
type pooling struct {
	pooled, direct string // URLs of the same database
	isReal         bool
}

func newPooling(t *testing.T) pooling {
	t.Helper()
	pooled, direct, isReal := services.PgBouncer(t)
	direct = testdb.Create(t, &pgtest.Server{URL: direct})
	database, err := url.Parse(direct)
	require.NoError(t, err)
	through, err := url.Parse(pooled)
	require.NoError(t, err)
	through.Path = database.Path
	p := pooling{through.String(), direct, isReal}
	p.fill(t)
	return p
}

// fill makes the pooler open several connections, among which it then changes with each transaction.
func (p pooling) fill(t *testing.T) {
	t.Helper()
	const connections = 4
	pool := testdb.Open(t, p.in("exec"))
	pids := map[int]bool{}
	for range connections {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
		var pid int
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		pids[pid] = true
	}
	require.Len(t, pids, connections)
}

// in gives the URL through the pooler for one of pgx's modes.
func (p pooling) in(mode string) string { return p.pooled + "&default_query_exec_mode=" + mode }

// Everything that a service does, all of it through the pooler but for LISTEN: migrate, write, forward with several
// workers, look at the dead letters and put them back.
func TestAllWorksThroughATransactionPooler(t *testing.T) {
	p := newPooling(t)
	direct := testdb.Open(t, p.direct)
	for _, mode := range poolerModes {
		t.Run(mode, func(t *testing.T) {
			schema := outbox.Schema{Name: testdb.Random("pooled_")}
			pool := testdb.Open(t, p.in(mode), connections(10))
			migrateAs(t, pool, schema)
			require.NoError(t, outbox.CheckSchema(t.Context(), pool, schema))

			broker := &outboxBroker{name: topic, ledger: newLedger(func(e entry) verdict {
				if e.key == "poison" {
					return refuses
				}
				return takes
			})}
			f, err := outbox.NewForwarder(pool, broker, outbox.ForwarderConfig{
				Schema: schema, Workers: 4, BatchSize: 20, ListenDSN: p.direct,
				Classify: func(error) outbox.FailureKind { return outbox.FailurePermanent },
			}, nil)
			require.NoError(t, err)
			start(t, f)
			write := func(key string, first, last int) {
				require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					writeTo(t, tx, schema, topic, key, first, last)
					return nil
				}))
			}
			written := map[string]int{}
			for first := 1; first <= 100; first += 10 {
				for key := range 8 {
					written[fmt.Sprint("k", key)] = first + 9
					write(fmt.Sprint("k", key), first, first+9)
				}
			}
			write("poison", 1, 3)
			await(t, "all others are forwarded", broker.ledger.reached(800))
			eventually(t, "the poison is dead", func() bool {
				stats, err := outbox.ReadStats(t.Context(), pool, schema)
				require.NoError(t, err)
				return stats == outbox.Stats{Dead: 3, QuarantinedKeys: 1}
			})
			require.NoError(t, f.Health())
			require.Equal(t, tally{written: 800, delivered: 800, refused: 1}, broker.ledger.tally(t, written))

			letters, err := outbox.NewDeadLetters(pool, schema)
			require.NoError(t, err)
			list, err := letters.List(t.Context(), outbox.DeadLetterFilter{Key: "poison"})
			require.NoError(t, err)
			require.Len(t, list, 3)
			requeued, err := letters.Requeue(t.Context(), outbox.DeadLetterFilter{Key: "poison"})
			require.NoError(t, err)
			require.EqualValues(t, 3, requeued)
			eventually(t, "they are dead again", func() bool { return count(t, direct, schema.Name+".outbox_dead") == 3 })
			discarded, err := letters.Discard(t.Context(), outbox.DeadLetterFilter{Key: "poison"})
			require.NoError(t, err)
			require.EqualValues(t, 3, discarded)
		})
	}
}

// pgx's default prepares statements on a connection that is another one for the next transaction. Nothing is lost or
// overtaken by that; Health says what is wrong, and with another mode everything goes on its way.
func TestPreparedStatementsBehindATransactionPoolerLoseNothing(t *testing.T) {
	p := newPooling(t)
	s := newSite(t, p.direct, p.in("cache_statement"))
	const workers = 4
	s.forwarder = s.newForwarder(t, p.in("cache_statement"), workers)
	running := make(chan error, 1)
	go func() { running <- s.forwarder.Run(t.Context()) }()
	s.put(t, messages)
	var trouble error
	eventually(t, "it delivers, or says why it does not", func() bool {
		trouble = s.forwarder.Health()
		return trouble != nil || count(t, s.pool, "public.outbox") == 0
	})
	t.Log("trouble:", trouble)
	if p.isReal {
		require.ErrorContains(t, trouble, "prepared statement")
	} else {
		require.NoError(t, trouble)
	}
	require.NoError(t, s.forwarder.Close())
	require.NoError(t, <-running)

	s.forwarder = s.newForwarder(t, p.in("cache_describe"), workers)
	start(t, s.forwarder)
	s.put(t, messages)
	s.awaitPeace(t)
}

// drivers open a database through the pooler for database/sql.
func (p pooling) drivers(t *testing.T) map[string]*sql.DB {
	t.Helper()
	all := map[string]*sql.DB{
		"pq":                   openSQL(t, "postgres", p.pooled, 4),
		"pq binary_parameters": openSQL(t, "postgres", p.pooled+"&binary_parameters=yes", 4),
	}
	for _, mode := range poolerModes {
		all["stdlib "+mode] = openSQL(t, "pgx", p.in(mode), 4)
	}
	return all
}

// What a service does by database/sql, and by pgx in the inbox: migrate, publish in a transaction, consume once, prune.
func TestDatabaseSQLWorksThroughATransactionPooler(t *testing.T) {
	p := newPooling(t)
	direct := testdb.Open(t, p.direct)
	for name, db := range p.drivers(t) {
		t.Run(name, func(t *testing.T) {
			schema := outbox.Schema{Name: testdb.Random("pooled_")}
			require.NoError(t, outbox.MigrateSQL(t.Context(), db, schema))
			for range 5 {
				tx, err := db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				publishSQL(t, tx, schema)
				require.NoError(t, tx.Commit())
				tx, err = db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				publishSQL(t, tx, schema)
				require.NoError(t, tx.Rollback())
			}
			require.Equal(t, 10, count(t, direct, schema.Name+".outbox"))
			inbox, err := outbox.NewInbox(db, outbox.InboxConfig{Schema: schema, Consumer: "c", PublishTopic: topic, Retention: time.Hour}, nil)
			require.NoError(t, err)
			requireConsumesOnce(t, direct, inbox, schema)
		})
	}
	for _, mode := range poolerModes {
		t.Run("pgx "+mode, func(t *testing.T) {
			schema := outbox.Schema{Name: testdb.Random("pooled_")}
			pool := testdb.Open(t, p.in(mode))
			migrateAs(t, pool, schema)
			inbox, err := outbox.NewPgxInbox(pool, outbox.InboxConfig{Schema: schema, Consumer: "c", PublishTopic: topic, Retention: time.Hour}, nil)
			require.NoError(t, err)
			requireConsumesOnce(t, direct, inbox, schema)
		})
	}
}

// Without a transaction, what needs one round trip works too. (lib/pq by itself, and describe_exec, take two.)
func TestPublishingWithoutATransactionThroughATransactionPooler(t *testing.T) {
	p := newPooling(t)
	direct := testdb.Open(t, p.direct)
	migrate(t, direct)
	drivers := p.drivers(t)
	delete(drivers, "pq")
	delete(drivers, "stdlib describe_exec")
	for _, db := range drivers {
		for range 10 {
			publishSQL(t, db, outbox.Schema{})
		}
	}
	modes := []string{"cache_describe", "exec", "simple_protocol"}
	for _, mode := range modes {
		writeTo(t, testdb.Open(t, p.in(mode)), outbox.Schema{}, topic, mode, 1, 20)
	}
	require.Equal(t, 20*(len(drivers)+len(modes)), count(t, direct, "public.outbox"))
}

// publishSQL writes one message alone and one beside it.
func publishSQL(t *testing.T, db outbox.SQLExecutor, schema outbox.Schema) {
	t.Helper()
	publisher, err := outbox.NewPublisher(db, outbox.PublisherConfig{Schema: schema}, nil)
	require.NoError(t, err)
	msg := message.NewMessageWithContext(t.Context(), "", []byte("it's \\ odd, $1"))
	msg.Metadata.Set("name", "välue")
	outbox.SetKey(msg, "key")
	require.NoError(t, publisher.Publish(topic, msg))
	require.NoError(t, publisher.Publish(topic, message.NewMessageWithContext(t.Context(), "", nil)))
}

// requireConsumesOnce handles messages twice each; the effect is what the handler returns.
func requireConsumesOnce(t *testing.T, direct *pgxpool.Pool, inbox *outbox.Inbox, schema outbox.Schema) {
	t.Helper()
	before := count(t, direct, schema.Name+".outbox")
	handle := inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		return []*message.Message{message.NewMessage("", []byte("effect of "+msg.UUID))}, nil
	})
	for n := range 20 {
		_, err := handle(message.NewMessageWithContext(t.Context(), fmt.Sprint("message ", n/2), nil))
		require.NoError(t, err)
	}
	require.Equal(t, before+10, count(t, direct, schema.Name+".outbox"))
	execute(t, direct, "UPDATE "+schema.Name+".outbox_inbox SET received_at = received_at - interval '1 day'")
	forgotten, err := inbox.Prune(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 10, forgotten)
}
