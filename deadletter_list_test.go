package outbox_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestAListedLetterTellsAllThatIsKnown(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	out, _ := poisonable()
	msg := message.NewMessage("the id", []byte("poison"))
	msg.Metadata = message.Metadata{"a": "b", "odd \"\\\n": "\u2028é"}
	outbox.SetKey(msg, "k")
	publisher, err := outbox.NewPgxPublisher(pool, outbox.PublisherConfig{}, nil)
	require.NoError(t, err)
	began := time.Now().Add(-time.Minute) // the server's clock is this machine's, more or less
	require.NoError(t, publisher.Publish("orders", msg, message.NewMessage("alone", []byte("poison"))))
	put(t, pool, "orders", "k", "behind")
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	execute(t, pool, `UPDATE public.outbox_dead SET died_at = died_at - interval '1 hour' WHERE id = 1`)

	letters := list(t, pool, outbox.DeadLetterFilter{})
	require.Len(t, letters, 3)
	l := letters[0]
	require.InDelta(t, time.Hour, l.Age, float64(time.Minute))
	require.WithinRange(t, l.CreatedAt, began, time.Now().Add(time.Minute))
	require.WithinRange(t, l.DiedAt, began.Add(-time.Hour), time.Now().Add(-time.Hour+time.Minute))
	l.Age, l.CreatedAt, l.DiedAt = 0, time.Time{}, time.Time{}
	require.Equal(t, outbox.DeadLetter{ID: 1, Topic: "orders", Key: "k", UUID: "the id", Payload: []byte("poison"),
		Metadata: msg.Metadata, Attempts: 1, LastError: "the broker refuses", Quarantines: true}, l)
	require.False(t, letters[1].Quarantines, "it has no key")
	require.Equal(t, []any{"k", "", 0, true, true}, []any{letters[2].Key, letters[2].LastError, letters[2].Attempts, letters[2].Tail, letters[2].Quarantines})
	for _, letter := range letters {
		require.GreaterOrEqual(t, letter.Age, time.Duration(0))
	}
}

func TestOddLettersAreListedLikeAnyOther(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	put(t, pool, "orders", "", numbered(1, 9)...)
	bury(t, pool, "true")
	for id, set := range map[int]string{
		1: `metadata = '{"a": 1}'`, 2: `metadata = '[]'`, 3: `metadata = 'null'`, 4: `metadata = '{"a": null}'`, 5: `payload = NULL`, 6: `payload = ''`,
		7: `created_at = '-infinity', died_at = 'infinity'`, 9: `died_at = '0001-01-01'`, 8: `died_at = now() + interval '1 hour'`,
	} {
		_, err := pool.Exec(t.Context(), `UPDATE public.outbox_dead SET `+set+` WHERE id = $1`, id)
		require.NoError(t, err)
	}
	letters := list(t, pool, outbox.DeadLetterFilter{})
	require.Len(t, letters, 9)
	for _, l := range letters[:4] {
		require.Nil(t, l.Metadata)
	}
	require.Equal(t, message.Metadata{}, letters[4].Metadata)
	require.Nil(t, letters[4].Payload)
	require.Equal(t, []byte{}, letters[5].Payload)
	require.Zero(t, letters[6].CreatedAt)
	require.Zero(t, letters[6].DiedAt)
	require.Zero(t, letters[7].Age, "by a clock ahead of ours")
	require.Greater(t, letters[8].Age, 200*365*24*time.Hour, "more than a Duration takes")
}

// 1,000 letters, and in the middle of pages ids that a reset sequence has given again.
func TestPagesTellEachLetterOnce(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	execute(t, pool, `INSERT INTO public.outbox_dead (txid, id, lane, topic, key, uuid, metadata, created_at, attempts, last_error, holds, tail)
		SELECT n::text::xid8, CASE WHEN n BETWEEN 95 AND 350 THEN 95 WHEN n > 700 THEN n - 100 ELSE n END, 0, 't', '', n::text, '{}', now(), 1, 'e', false, false
		FROM generate_series(1, 1000) n`)
	for _, limit := range []int{0, 1, 7, 100, 999, 5000, -1, math.MaxInt} {
		seen := map[string]bool{}
		last, pages := int64(0), 0
		for {
			page := list(t, pool, outbox.DeadLetterFilter{AfterID: last, Limit: limit})
			if len(page) == 0 {
				break
			}
			for _, l := range page {
				require.False(t, seen[l.UUID], "twice: %s", l.UUID)
				seen[l.UUID] = true
				require.GreaterOrEqual(t, l.ID, last)
				last = l.ID
			}
			pages++
		}
		require.Len(t, seen, 1000, "limit %d", limit)
		if limit < 0 || limit >= 1000 {
			require.Equal(t, 1, pages)
		}
	}
	require.Len(t, list(t, pool, outbox.DeadLetterFilter{Limit: 94}), 94)
	require.Len(t, list(t, pool, outbox.DeadLetterFilter{Limit: 95}), 94+256)
	require.Len(t, list(t, pool, outbox.DeadLetterFilter{AfterID: 360}), 100, "the default")
}

func TestALargeLetterIsListedWhole(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	large := strings.Repeat("0123456789abcdef", 1<<16)
	put(t, pool, "orders", "", large)
	bury(t, pool, "true")
	require.Equal(t, large, string(list(t, pool, outbox.DeadLetterFilter{})[0].Payload))
	require.Equal(t, int64(1), requeue(t, pool, outbox.DeadLetterFilter{All: true}))
	out := newBroker()
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, []string{large}, out.payloads(""))
}
