package sqlv4_test

import (
	"testing"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMessageComesAsItWasWritten(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		keyed := message.NewMessage("keyed", []byte{0, 1, 0xff})
		keyed.Metadata = message.Metadata{"quotes": `"\'`, "größe": "", "control": "\x01\n"}
		outbox.SetKey(keyed, `k"\{},`)
		sent := []*message.Message{keyed, message.NewMessage("nil", nil), message.NewMessage("empty", message.Payload{})}
		publisher := a.publisher()
		require.NoError(t, publisher.Publish("orders"))
		require.NoError(t, publisher.Publish("orders", sent...))
		for _, msg := range sent {
			require.NoError(t, publisher.Publish("orders", msg))
		}
		require.NoError(t, publisher.Publish("others", message.NewMessage("not asked for", nil)))
		require.Equal(t, 2, a.count(`key = 'k"\{},'`))
		messages := a.subscribe(4)
		for _, want := range append(sent, sent...) {
			msg := next(t, messages)
			require.Equal(t, want.UUID, msg.UUID)
			require.Equal(t, want.Payload, msg.Payload, "nil and empty are different")
			require.Equal(t, want.Metadata, msg.Metadata)
			msg.Ack()
		}
		a.awaitCount(1)
	})
}

func TestNackedMessageComesAgainAndIsNotSettled(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		a.put("", "1", "2")
		messages := a.subscribe(0)
		for range 3 {
			msg := next(t, messages)
			require.Equal(t, "1", string(msg.Payload))
			require.True(t, msg.Nack())
		}
		require.Equal(t, 2, a.count("true"))
		require.Equal(t, []string{"1", "2"}, ack(t, messages, 2))
		a.awaitCount(0)
	})
}

// What a handler does in the subscriber's transaction commits with its message's settlement.
func TestHandlersTransactionIsTheSettlements(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		a.execute(`CREATE TABLE public.effects (body text)`)
		a.put("", "1")
		msg := next(t, a.subscribe(0))
		tx, ok := wsql.TxFromContext(msg.Context())
		require.True(t, ok)
		_, err := tx.ExecContext(msg.Context(), `INSERT INTO public.effects VALUES ($1)`, "1")
		require.NoError(t, err)
		require.Empty(t, payloads(t, a.pool, `(SELECT convert_to(body, 'UTF8') AS payload FROM public.effects) e`))
		msg.Ack()
		a.awaitCount(0)
		require.Len(t, payloads(t, a.pool, `(SELECT convert_to(body, 'UTF8') AS payload FROM public.effects) e`), 1)
	})
}

func TestWhatSomebodysSQLWroteStopsNoTopic(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		odd := []string{`null`, `[1, 2]`, `"text"`, `{"n": 1.50, "null": null}`}
		for i, metadata := range odd {
			a.execute(`INSERT INTO `+a.schema.String()+` (id, topic, uuid, metadata)
				VALUES ($1, 'orders', '', $2::text::jsonb)`, i-1, metadata)
		}
		messages := a.subscribe(0)
		for _, metadata := range odd[:3] {
			msg := next(t, messages)
			require.Equal(t, message.Metadata{outbox.RawMetadata: metadata}, msg.Metadata)
			require.Nil(t, msg.Payload)
			msg.Ack()
		}
		msg := next(t, messages)
		require.Equal(t, message.Metadata{"n": "1.50", "null": "null"}, msg.Metadata)
		msg.Ack()
		a.awaitCount(0)
	})
}

func TestDelayedMessageComesWhenItIsDue(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		late := message.NewMessage("late", []byte("late"))
		delay.Message(late, delay.For(time.Hour))
		require.NoError(t, a.publisher().Publish("orders", late, message.NewMessage("now", []byte("now"))))
		messages := a.subscribe(0)
		require.Equal(t, []string{"now"}, ack(t, messages, 1))
		a.awaitCount(1)
		a.execute(`UPDATE ` + a.schema.String() + ` SET next_attempt_at = now()`)
		msg := next(t, messages)
		require.Equal(t, "late", msg.UUID)
		require.Empty(t, msg.Metadata, "further hops must not delay again")
		msg.Ack()
		a.awaitCount(0)
	})
}

// Two keys are held back, each behind a message that failed in a Forwarder. A subscriber takes both, and is closed when it
// has acked one: what is behind that is free, and nothing else.
func TestHeldBackMessagesComeWhenTheOneBeforeThemIsAcked(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		a.hold("one", "failed", "behind")
		a.hold("two", "failed too", "behind too")
		s := a.subscriber(0)
		messages, err := s.Subscribe(t.Context(), "orders")
		require.NoError(t, err)
		require.Equal(t, []string{"failed"}, ack(t, messages, 1))
		require.Equal(t, "failed too", string(next(t, messages).Payload))
		require.NoError(t, s.Close())
		require.Equal(t, 3, a.count("true"))
		parked := payloads(t, a.pool, a.schema.String()+` WHERE next_attempt_at = 'infinity'`)
		require.Equal(t, map[string]bool{"behind too": true}, parked)
		require.ElementsMatch(t, []string{"failed too", "behind", "behind too"}, ack(t, a.subscribe(0), 3))
		a.awaitCount(0)
	})
}

// hold puts two messages, as a Forwarder leaves them when the first has failed and is due again.
func (a adapted) hold(key, first, second string) {
	a.t.Helper()
	a.put(key, first, second)
	a.execute(`UPDATE `+a.schema.String()+` SET holds = true,
		next_attempt_at = CASE WHEN payload = convert_to($1, 'UTF8') THEN now() ELSE 'infinity' END WHERE key = $2`, first, key)
}

// A message is published, taken and settled, and one released behind it, in every way in which pgx sends statements.
func TestAdaptersWorkInEveryModeOfPgx(t *testing.T) {
	t.Parallel()
	modes := map[string]func(*pgxpool.Config){
		"backslashes": func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off" },
		"form of payloads": func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["bytea_output"] = "escape"
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		},
	}
	for mode := pgx.QueryExecModeCacheStatement; mode <= pgx.QueryExecModeSimpleProtocol; mode++ {
		modes[mode.String()] = func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testdb.URL(t)
			a := newAdapted(t, testdb.Open(t, url), wsql.BeginnerFromPgx(testdb.Open(t, url, mode)))
			a.put("", "\x00\xff", `it's \ odd`)
			a.hold(`k\'{},"`, "head", "behind")
			messages := a.subscribe(0)
			require.Equal(t, []string{"\x00\xff", `it's \ odd`, "head", "behind"}, ack(t, messages, 4))
			a.awaitCount(0)
		})
	}
}
