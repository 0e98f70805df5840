package outbox_test

import (
	"testing"
	"time"
	_ "time/tzdata" // New York must be known everywhere

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func delayed(by delay.Delay) *message.Message {
	msg := text("delayed", "")
	delay.Message(msg, by)
	return msg
}

// publishTwice publishes each message alone and then all in a call, and gives what was stored of either.
func publishTwice(t *testing.T, w writing, messages ...*message.Message) (alone, together []stored) {
	t.Helper()
	publisher := publisherOf(t, w.db, outbox.PublisherConfig{})
	for _, msg := range messages {
		require.NoError(t, publisher.Publish("orders", msg))
	}
	require.NoError(t, publisher.Publish("orders", append(messages, text("filler", ""))...))
	rows := w.stored(t)
	return rows[:len(messages)], rows[len(messages) : 2*len(messages)]
}

func TestDelayIsTheDatabasesDuration(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	wrongClock := delayed(delay.For(90*time.Second + 250*time.Millisecond))
	wrongClock.Metadata.Set(delay.DelayedUntilKey, "2001-01-01T00:00:00Z") // this machine's clock is not the database's
	var before, after time.Time
	require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&before))
	alone, together := publishTwice(t, w, wrongClock)
	require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&after))
	for _, row := range append(alone, together...) {
		require.NotNil(t, row.Due)
		require.False(t, row.Due.Add(-90250*time.Millisecond).Before(before))
		require.False(t, row.Due.Add(-90250*time.Millisecond).After(after))
		require.Equal(t, map[string]string(wrongClock.Metadata), row.Metadata, "stored as it was given")
	}
}

func TestEqualDelaysOfACallFallDueTogether(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	messages := []*message.Message{delayed(delay.For(time.Hour)), text("now", ""), delayed(delay.For(time.Hour))}
	require.NoError(t, publisherOf(t, w.db, outbox.PublisherConfig{}).Publish("orders", messages...))
	rows := w.stored(t)
	require.Nil(t, rows[1].Due)
	require.Equal(t, rows[0].Due, rows[2].Due)
}

func TestNoDelayIsReady(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	unset := text("unset", "")
	unset.Metadata.Set(delay.DelayedForKey, "")
	unset.Metadata.Set(delay.DelayedUntilKey, "")
	past, ancient := text("past", ""), text("ancient", "")
	past.Metadata.Set(delay.DelayedUntilKey, "2001-01-01T00:00:00+09:00")
	ancient.Metadata.Set(delay.DelayedUntilKey, "0000-01-01T00:00:00Z")
	alone, together := publishTwice(t, w, delayed(delay.For(0)), delayed(delay.For(-time.Hour)), unset, past, ancient)
	for _, row := range append(alone, together...) {
		require.Nil(t, row.Due, row.UUID)
	}
}

// TestDueTimeIsExactInEveryZone: server, session and message each have another zone, and the time is one of the hour
// that New York has twice.
func TestDueTimeIsExactInEveryZone(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	w.exec(t, `ALTER DATABASE `+w.pool.Config().ConnConfig.Database+` SET TimeZone = 'Asia/Jakarta'`)
	w.pool.Reset()
	var zone string
	require.NoError(t, w.pool.QueryRow(t.Context(), `SHOW TimeZone`).Scan(&zone))
	require.Equal(t, "Asia/Jakarta", zone)

	newYork, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	sunday := time.Date(time.Now().Year()+1, time.November, 1, 5, 30, 0, 0, time.UTC)
	for sunday.Weekday() != time.Sunday {
		sunday = sunday.AddDate(0, 0, 1)
	}
	first, second := sunday.In(newYork), sunday.Add(time.Hour).In(newYork)
	require.Equal(t, first.Format(time.DateTime), second.Format(time.DateTime), "the clock was set back between them")

	var messages []*message.Message
	for _, until := range []time.Time{first, second, second.Add(123456 * time.Microsecond)} {
		msg := text("until", "")
		msg.Metadata.Set(delay.DelayedUntilKey, until.Format(time.RFC3339Nano))
		messages = append(messages, msg)
	}
	for _, session := range []string{"Asia/Jakarta", "America/New_York"} {
		for _, driver := range []string{"postgres", "pgx"} {
			w.exec(t, `TRUNCATE public.outbox`)
			w.db = openSQL(t, driver, withParameter(t, w.url, "timezone", session))
			alone, together := publishTwice(t, w, messages...)
			for _, rows := range [][]stored{alone, together} {
				require.True(t, rows[0].Due.Equal(first), "%s, %s: %s", session, driver, rows[0].Due)
				require.True(t, rows[1].Due.Equal(second), "%s, %s: %s", session, driver, rows[1].Due)
				require.True(t, rows[2].Due.Equal(second.Add(123456*time.Microsecond)), "%s, %s: %s", session, driver, rows[2].Due)
			}
		}
	}
}

func TestFarDelaysAreStored(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	last := text("until", "")
	last.Metadata.Set(delay.DelayedUntilKey, "9999-12-31T23:59:59Z")
	alone, together := publishTwice(t, w, last, delayed(delay.For(1<<63-1)))
	for _, rows := range [][]stored{alone, together} {
		require.Equal(t, time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC), rows[0].Due.UTC())
		require.Greater(t, rows[1].Due.Year(), 2300)
	}
}
