package outbox_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// identities gives what a message keeps on its way into the dead letters and back.
func identities(t *testing.T, pool *pgxpool.Pool, table string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT concat_ws('|', txid, id, lane, topic, key, uuid, payload, metadata, created_at) FROM `+table+` ORDER BY id`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

func TestARequeuedLetterIsTheMessageThatItWas(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "k"} {
		t.Run("key "+key, func(t *testing.T) {
			t.Parallel()
			pool := migrated(t)
			out, heal := poisonable()
			put(t, pool, "orders", key, "poison")
			put(t, pool, "orders", "another", "poison")
			before := identities(t, pool, "public.outbox")
			runOnce(t, pool, out, outbox.ForwarderConfig{})
			require.Equal(t, int64(1), requeue(t, pool, outbox.DeadLetterFilter{IDs: []int64{1}}))
			require.Equal(t, before[:1], identities(t, pool, "public.outbox"))
			require.Equal(t, before[1:], identities(t, pool, "public.outbox_dead"), "the other one stays")
			require.Equal(t, 1, count(t, pool, "attempts = 0 AND last_error IS NULL AND next_attempt_at <= now() AND holds = (key <> '')"),
				"it is due, not ready: forwarders may not look at its id any more")
			heal()
			runOnce(t, pool, out, outbox.ForwarderConfig{})
			require.Equal(t, []string{"poison"}, out.payloads(key))
			require.Zero(t, count(t, pool, "true"))
		})
	}
}

// The letter that is selected is the head, one of the tail, or all; new messages come before and after.
func TestAQuarantinedKeyIsRequeuedAsAWhole(t *testing.T) {
	t.Parallel()
	for name, filter := range map[string]outbox.DeadLetterFilter{
		"the head": {ErrorContains: "refuses"}, "one of the tail": {IDs: []int64{200}}, "the last": {AfterID: 300, All: true},
		"the key": {Key: "k"}, "all, limited": {All: true, Limit: 1},
	} {
		for _, batch := range []int{7, 500} {
			t.Run(fmt.Sprint(name, " in batches of ", batch), func(t *testing.T) {
				t.Parallel()
				pool := migrated(t)
				out, heal := poisonable()
				config := outbox.ForwarderConfig{BatchSize: batch}
				put(t, pool, "orders", "k", append([]string{"poison"}, numbered(1, 300)...)...)
				runOnce(t, pool, out, config)
				require.Len(t, dead(t, pool), 301)
				put(t, pool, "orders", "k", numbered(301, 303)...)
				require.Equal(t, int64(301), requeue(t, pool, filter))
				require.Empty(t, dead(t, pool))
				require.Equal(t, 64, count(t, pool, "holds AND next_attempt_at < 'infinity'"), "no more than may go next")
				put(t, pool, "orders", "k", numbered(304, 310)...)
				heal()
				runOnce(t, pool, out, config)
				require.Equal(t, append([]string{"poison"}, numbered(1, 310)...), out.payloads("k"))
				require.Zero(t, count(t, pool, "true"))
				require.Empty(t, dead(t, pool))
			})
		}
	}
}

func TestAKeyIsRequeuedWhileMessagesOfItArePublishedAndForwarded(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	out, heal := poisonable()
	put(t, pool, "orders", "k", append([]string{"poison"}, numbered(1, 300)...)...)
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{BatchSize: 20, PollInterval: 20 * time.Millisecond}))
	eventually(t, "the key is in quarantine", func() bool { return len(dead(t, pool)) > 0 })
	heal()
	published := make(chan error, 1)
	go func() {
		for i := 301; i <= 600; i++ {
			if err := write(t.Context(), pool, "orders", "k", fmt.Sprint(i)); err != nil {
				published <- err
				return
			}
		}
		published <- nil
	}()
	// What was on its way into the quarantine follows it, and is requeued then.
	eventually(t, "everything has been forwarded", func() bool {
		requeue(t, pool, outbox.DeadLetterFilter{Key: "k"})
		return len(out.payloads("k")) == 601
	})
	require.NoError(t, <-published)
	require.Equal(t, append([]string{"poison"}, numbered(1, 600)...), out.payloads("k"))
	require.Empty(t, dead(t, pool))
}

func TestAttemptsStartAgain(t *testing.T) {
	t.Parallel()
	pool, out := migrated(t), newBroker()
	var mu sync.Mutex
	var attempts []int
	failures := 0
	out.fail = func(string, *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if failures == 0 {
			return nil
		}
		failures--
		return errBroker
	}
	config := outbox.ForwarderConfig{Retry: quickRetry, PollInterval: 5 * time.Millisecond,
		Classify: func(error) outbox.FailureKind { return outbox.FailureOfMessage },
		Hooks: []outbox.Hook{publishes(func(e outbox.PublishEvent) {
			mu.Lock()
			defer mu.Unlock()
			attempts = append(attempts, e.Attempts)
		})}}
	failures = 6
	put(t, pool, "orders", "k", "1")
	start(t, forwarder(t, pool, out, config))
	for range 2 {
		eventually(t, "it is dead after three attempts", func() bool { return len(dead(t, pool)) == 1 })
		require.Equal(t, []string{"1|3|the broker refuses|false"}, dead(t, pool))
		require.Equal(t, int64(1), requeue(t, pool, outbox.DeadLetterFilter{Key: "k"}))
	}
	out.await(t, 1)
	eventually(t, "it is settled", func() bool { return count(t, pool, "true") == 0 })
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []int{0, 1, 2, 0, 1, 2, 0}, attempts)
}

type publishes func(outbox.PublishEvent)

func (f publishes) OnPublish(e outbox.PublishEvent) { f(e) }

func TestALetterThatQuarantinesNothingIsRequeuedAlone(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	out, heal := poisonable()
	config := outbox.ForwarderConfig{OnDead: outbox.ContinueKey}
	put(t, pool, "orders", "k", "poison", "1", "poison", "2")
	runOnce(t, pool, out, config)
	require.Equal(t, []string{"1", "2"}, out.payloads("k"))
	require.Equal(t, int64(1), requeue(t, pool, outbox.DeadLetterFilter{IDs: []int64{3}}))
	require.Equal(t, 1, count(t, pool, "NOT holds AND id = 3"))
	require.Equal(t, []int64{1}, ids(list(t, pool, everyLetter)))
	heal()
	runOnce(t, pool, out, config)
	require.Equal(t, []string{"1", "2", "poison"}, out.payloads("k"))
}

// Sent alone it would follow the quarantine back at once.
func TestALetterThatQuarantinesNothingGoesAlongWithItsQuarantinedKey(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	out, heal := poisonable()
	put(t, pool, "orders", "k", "poison")
	runOnce(t, pool, out, outbox.ForwarderConfig{OnDead: outbox.ContinueKey})
	put(t, pool, "orders", "k", "poison", "3")
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, int64(3), requeue(t, pool, outbox.DeadLetterFilter{IDs: []int64{1}}))
	heal()
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, []string{"poison", "poison", "3"}, out.payloads("k"))
}

func TestALimitCountsWhatIsSelectedByTheLowestIds(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	put(t, pool, "orders", "", numbered(1, 10)...)
	put(t, pool, "orders", "k", numbered(11, 15)...)
	bury(t, pool, "true")
	require.Equal(t, int64(3), requeue(t, pool, outbox.DeadLetterFilter{Topic: "orders", AfterID: 2, Limit: 3}))
	require.Equal(t, 3, count(t, pool, "id BETWEEN 3 AND 5"))
	require.Equal(t, int64(2), discard(t, pool, outbox.DeadLetterFilter{All: true, Limit: 2}))
	require.Equal(t, []int64{6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, ids(list(t, pool, everyLetter)))
	require.Equal(t, int64(10), requeue(t, pool, everyLetter))
	require.Zero(t, requeue(t, pool, everyLetter), "there is nothing any more")
}

// Rows of the key that somebody has locked can't be released. That is nobody's error, and is made up for later.
func TestAReleaseThatComesOutShortIsMadeUpFor(t *testing.T) {
	t.Parallel()
	for _, discarded := range []bool{false, true} {
		t.Run(fmt.Sprint("discarded ", discarded), func(t *testing.T) {
			t.Parallel()
			pool, out := migrated(t), newBroker()
			put(t, pool, "orders", "k", numbered(1, 10)...)
			bury(t, pool, "id = 1")
			execute(t, pool, `UPDATE public.outbox SET holds = true, next_attempt_at = 'infinity'`)
			outsider := lock(t, pool, "id = 2")
			first := 1
			if discarded {
				require.Equal(t, int64(1), discard(t, pool, outbox.DeadLetterFilter{Key: "k"}))
				first = 2
			} else {
				require.Equal(t, int64(1), requeue(t, pool, outbox.DeadLetterFilter{Key: "k"}))
			}
			require.Equal(t, 2-first, count(t, pool, "next_attempt_at < 'infinity'"))
			require.NoError(t, outsider.Rollback(t.Context()))
			start(t, forwarder(t, pool, out, outbox.ForwarderConfig{}))
			out.await(t, 11-first)
			require.Equal(t, numbered(first, 10), out.payloads("k"))
		})
	}
}

// Parked rows can be left in the outbox, behind a dead letter, when a forwarder ended before all had followed it.
func TestParkedMessagesOfAKeyAreReleasedWithItsLetters(t *testing.T) {
	t.Parallel()
	pool, out := migrated(t), newBroker()
	put(t, pool, "orders", "k", numbered(1, 200)...)
	bury(t, pool, "id <= 10")
	execute(t, pool, `UPDATE public.outbox SET holds = true, next_attempt_at = 'infinity'`)
	require.Equal(t, int64(10), requeue(t, pool, outbox.DeadLetterFilter{IDs: []int64{5}}))
	require.Equal(t, 64, count(t, pool, "id <= 64 AND next_attempt_at < 'infinity'"))
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, numbered(1, 200), out.payloads("k"))
}

func TestOldLettersAreToldOfOnce(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	put(t, pool, "orders", "", numbered(1, 5)...)
	put(t, pool, "orders", "k", numbered(6, 9)...)
	bury(t, pool, "true")
	execute(t, pool, `UPDATE public.outbox_dead SET created_at = now() - interval '29 days' WHERE id <= 2`,
		`UPDATE public.outbox_dead SET created_at = now() - interval '31 days' WHERE id > 3`)
	logger := watermill.NewCaptureLogger()
	d := deadLetters(t, pool).WithLogger(logger)
	_, err := d.List(t.Context(), everyLetter)
	require.NoError(t, err)
	_, err = d.Requeue(t.Context(), outbox.DeadLetterFilter{IDs: []int64{1, 2, 3}})
	require.NoError(t, err)
	require.Empty(t, logger.Captured())
	n, err := d.Requeue(t.Context(), outbox.DeadLetterFilter{IDs: []int64{4, 7}})
	require.NoError(t, err)
	require.Equal(t, int64(5), n)
	require.Equal(t, []any{int64(5)}, old(logger))
	_, err = d.Discard(t.Context(), everyLetter)
	require.NoError(t, err)
	require.Len(t, old(logger), 1, "what is deleted is not sent")
}

// old gives the counts of the lines that were logged, and nothing else may have been.
func old(logger *watermill.CaptureLoggerAdapter) (counts []any) {
	captured := logger.Captured()
	for level, lines := range captured {
		for _, line := range lines {
			if level == watermill.InfoLogLevel {
				counts = append(counts, line.Fields["letters"])
			} else {
				counts = append(counts, line.Msg)
			}
		}
	}
	return counts
}

// Nothing takes dead letters away but Discard and Requeue; no other role has the right to.
func TestDeadLettersNeverExpire(t *testing.T) {
	t.Parallel()
	pool, out := migrated(t), newBroker()
	put(t, pool, "orders", "", "1")
	put(t, pool, "orders", "k", "2", "3")
	bury(t, pool, "true")
	execute(t, pool, `UPDATE public.outbox_dead SET died_at = now() - interval '100 years', created_at = now() - interval '100 years'`)
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{}))
	for i := range 20 {
		put(t, pool, "orders", fmt.Sprint("k", i), "1")
	}
	out.await(t, 20)
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, []int64{1, 2, 3}, ids(list(t, pool, everyLetter)))
	require.True(t, slices.ContainsFunc(list(t, pool, everyLetter), func(l outbox.DeadLetter) bool { return l.Age > 99*365*24*time.Hour }))
}
