package outbox_test

import (
	"testing"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

func TestDelayedMessageComesWhenItIsDue(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		publisher, err := wsql.NewPublisher(a.db, wsql.PublisherConfig{SchemaAdapter: outbox.SchemaAdapter{}}, nil)
		require.NoError(t, err)
		late := message.NewMessage("late", []byte("late"))
		delay.Message(late, delay.For(time.Hour))
		require.NoError(t, publisher.Publish("orders", late, message.NewMessage("now", []byte("now"))))
		messages := a.subscribe(t, "orders")
		require.Equal(t, []string{"now"}, ack(t, messages, 1))
		a.awaitCount(t, 1)
		execute(t, a.pool, `UPDATE public.outbox SET next_attempt_at = now()`)
		msg := next(t, messages)
		require.Equal(t, "late", msg.UUID)
		require.Empty(t, msg.Metadata, "further hops must not delay again")
		msg.Ack()
		a.awaitCount(t, 0)
	})
}

// Messages that are due and ready ones make one batch, by id.
func TestDueMessagesTakeTheirPlaceInTheOrder(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		put(t, a.pool, "orders", "", numbered(1, 12)...)
		execute(t, a.pool, `UPDATE public.outbox SET next_attempt_at = now() - make_interval(secs => id) WHERE id % 3 = 0`)
		require.Equal(t, numbered(1, 12), ack(t, a.subscribe(t, "orders"), 12))
		a.awaitCount(t, 0)
	})
}

// A batch is never larger than asked for, and no row beyond it is locked.
func TestBatchLeavesTheRestToOthers(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		put(t, a.pool, "orders", "", numbered(1, 10)...)
		execute(t, a.pool, `UPDATE public.outbox SET next_attempt_at = now() WHERE id IN (9, 10)`)
		held := next(t, a.subscribe(t, "orders", batches(5)))
		require.Equal(t, "1", string(held.Payload))
		var free []string
		rows, err := a.pool.Query(t.Context(), `SELECT convert_from(payload, 'UTF8') FROM public.outbox ORDER BY id FOR UPDATE SKIP LOCKED`)
		require.NoError(t, err)
		for rows.Next() {
			var payload string
			require.NoError(t, rows.Scan(&payload))
			free = append(free, payload)
		}
		require.NoError(t, rows.Err())
		require.Equal(t, numbered(4, 8), free, "1 to 3, and the two that are due, are taken")
		held.Ack()
	})
}

func TestParkedMessageDoesNotComeUntilTheOneBeforeItIsAcked(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		put(t, a.pool, "orders", "k", "failed before", "parked", "parked too")
		put(t, a.pool, "orders", "other", "free")
		execute(t, a.pool, `UPDATE public.outbox SET holds = true, next_attempt_at = CASE WHEN id = 1 THEN now() + interval '1 hour' ELSE 'infinity' END
			WHERE key = 'k'`)
		messages := a.subscribe(t, "orders")
		require.Equal(t, []string{"free"}, ack(t, messages, 1))
		a.awaitCount(t, 3)
		execute(t, a.pool, `UPDATE public.outbox SET next_attempt_at = now() WHERE id = 1`)
		require.Equal(t, []string{"failed before", "parked", "parked too"}, ack(t, messages, 3))
		a.awaitCount(t, 0)
	})
}

// A forwarder's claim under way has seen the head of a key before it was due, and parks a later row of the key; it
// commits after the ack has begun. The ack must see that row, or nobody would ever release it.
func TestAckReleasesWhatAClaimUnderWayHasParked(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		put(t, a.pool, "orders", "k", "head")
		put(t, a.pool, "orders", "k2", "another head")
		put(t, a.pool, "other", "k", "later")
		execute(t, a.pool, `UPDATE public.outbox SET holds = true, attempts = 1, next_attempt_at = now() WHERE topic = 'orders'`)
		claim, err := a.pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = claim.Rollback(t.Context()) }()
		_, err = claim.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1, lane) FROM public.outbox WHERE topic = 'other'`,
			pgsql.Names{Schema: "public", Table: "outbox"}.LockClass())
		require.NoError(t, err)

		require.Equal(t, []string{"head", "another head"}, ack(t, a.subscribe(t, "orders"), 2))
		eventually(t, "the ack waits for the lane", func() (waits bool) {
			require.NoError(t, a.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits))
			return waits
		})
		require.Equal(t, 3, count(t, a.pool, "true"))
		tag, err := claim.Exec(t.Context(), `UPDATE public.outbox SET holds = true, next_attempt_at = 'infinity' WHERE topic = 'other'`)
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
		require.NoError(t, claim.Commit(t.Context()))
		a.awaitCount(t, 1)
		require.Equal(t, 1, count(t, a.pool, "holds AND next_attempt_at <= clock_timestamp()"), "released, and still holding back newcomers")
		require.Equal(t, []string{"later"}, ack(t, a.subscribe(t, "other"), 1))
		a.awaitCount(t, 0)
	})
}
