package outbox_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestTheTailOfADiscardedHeadIsForwardedInOrder(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	out, _ := poisonable()
	put(t, pool, "orders", "k", append([]string{"poison"}, numbered(1, 300)...)...)
	put(t, pool, "orders", "another", "poison", "1")
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	put(t, pool, "orders", "k", numbered(301, 303)...)
	require.Equal(t, int64(1), discard(t, pool, outbox.DeadLetterFilter{Key: "k", ErrorContains: "refuses"}))
	require.Equal(t, 64, count(t, pool, "holds AND attempts = 0 AND last_error IS NULL AND next_attempt_at < 'infinity'"))
	put(t, pool, "orders", "k", numbered(304, 310)...)
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, numbered(1, 310), out.payloads("k"))
	require.Empty(t, out.payloads("another"), "its quarantine is its own")
	require.Zero(t, count(t, pool, "true"))
	require.Len(t, dead(t, pool), 2)
}

func TestDiscardingATailLeavesTheQuarantine(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	out, heal := poisonable()
	put(t, pool, "orders", "k", "poison", "1", "2", "3")
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, int64(2), discard(t, pool, outbox.DeadLetterFilter{IDs: []int64{2, 4}}))
	heal()
	put(t, pool, "orders", "k", "4")
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Empty(t, out.all())
	require.Equal(t, []int64{1, 3, 5}, ids(list(t, pool, everyLetter)))
	require.Equal(t, int64(3), requeue(t, pool, everyLetter))
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, []string{"poison", "2", "4"}, out.payloads("k"))
}

func TestDiscardingATopicReleasesTheTailInAnother(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	out, _ := poisonable()
	put(t, pool, "broken", "k", "poison", "1")
	put(t, pool, "orders", "k", "2", "3")
	put(t, pool, "broken", "k", "4")
	put(t, pool, "orders", "another", "poison")
	put(t, pool, "broken", "another", "5")
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, int64(4), discard(t, pool, outbox.DeadLetterFilter{Topic: "broken"}))
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, []string{"2", "3"}, out.payloads("k"))
	require.Equal(t, []string{"poison|1|the broker refuses|false"}, dead(t, pool), "the head in the other topic")
}

func TestAKeyFlowsAtOnceWhenAllOfItIsDiscarded(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	out, _ := poisonable()
	put(t, pool, "orders", "k", "poison", "1", "2")
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{PollInterval: 20 * time.Millisecond}))
	eventually(t, "the key is in quarantine", func() bool { return len(dead(t, pool)) == 3 })
	require.Equal(t, int64(3), discard(t, pool, outbox.DeadLetterFilter{Key: "k"}))
	put(t, pool, "orders", "k", "3", "4")
	out.await(t, 2)
	require.Equal(t, []string{"3", "4"}, out.payloads("k"))
}

func TestParkedMessagesAreReleasedWhenNothingOfTheirKeyIsDeadAnyMore(t *testing.T) {
	t.Parallel()
	pool, out := migrated(t), newBroker()
	put(t, pool, "orders", "k", numbered(1, 100)...)
	bury(t, pool, "id <= 3")
	execute(t, pool, `UPDATE public.outbox SET holds = true, next_attempt_at = 'infinity'`)
	require.Equal(t, int64(3), discard(t, pool, outbox.DeadLetterFilter{Key: "k"}))
	require.Equal(t, 64, count(t, pool, "id BETWEEN 4 AND 67 AND next_attempt_at < 'infinity'"))
	runOnce(t, pool, out, outbox.ForwarderConfig{})
	require.Equal(t, numbered(4, 100), out.payloads("k"))
}

// Two failed, which takes two policies, or an operator's hand.
func TestAKeyIsFreeWhenItsLastHeadIsDiscarded(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	put(t, pool, "orders", "k", numbered(1, 6)...)
	bury(t, pool, "true")
	execute(t, pool, `UPDATE public.outbox_dead SET tail = false WHERE id = 4`,
		`UPDATE public.outbox_dead SET tail = false, holds = false WHERE id = 5`)
	require.Equal(t, int64(2), discard(t, pool, outbox.DeadLetterFilter{IDs: []int64{1, 2}}))
	require.Zero(t, count(t, pool, "true"))
	require.Equal(t, int64(1), discard(t, pool, outbox.DeadLetterFilter{IDs: []int64{4}}))
	require.Equal(t, 2, count(t, pool, "id IN (3, 6) AND holds"))
	require.Equal(t, []int64{5}, ids(list(t, pool, everyLetter)), "a failure of its own, which held nothing back")
	require.Equal(t, int64(1), discard(t, pool, everyLetter))
	require.Equal(t, 2, count(t, pool, "true"))
}

// Somebody has deleted the head by hand.
func TestATailWithoutAHeadQuarantinesUntilTheLastIsDiscarded(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	put(t, pool, "orders", "k", numbered(1, 5)...)
	bury(t, pool, "id <= 3")
	execute(t, pool, `DELETE FROM public.outbox_dead WHERE id = 1`, `UPDATE public.outbox SET holds = true, next_attempt_at = 'infinity'`)
	require.Equal(t, int64(1), discard(t, pool, outbox.DeadLetterFilter{IDs: []int64{2}}))
	require.Equal(t, 2, count(t, pool, "next_attempt_at = 'infinity'"))
	require.Equal(t, int64(1), discard(t, pool, outbox.DeadLetterFilter{IDs: []int64{3}}))
	require.Equal(t, 2, count(t, pool, "next_attempt_at < 'infinity'"))
}

func TestDiscardDeletesWhatIsSelectedAndNoMore(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	put(t, pool, "orders", "", numbered(1, 5)...)
	put(t, pool, "orders", "k", numbered(6, 8)...)
	bury(t, pool, "true")
	require.Zero(t, discard(t, pool, outbox.DeadLetterFilter{IDs: []int64{}}))
	require.Zero(t, discard(t, pool, outbox.DeadLetterFilter{Topic: "none"}))
	require.Equal(t, int64(2), discard(t, pool, outbox.DeadLetterFilter{IDs: []int64{2, 4, 99}}))
	require.Equal(t, []int64{1, 3, 5, 6, 7, 8}, ids(list(t, pool, everyLetter)))
	require.Zero(t, count(t, pool, "true"))
	require.Equal(t, int64(6), discard(t, pool, everyLetter))
	require.Zero(t, count(t, pool, "true"))
}

func TestAnOldTailThatIsReleasedIsToldOf(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	put(t, pool, "orders", "k", numbered(1, 5)...)
	bury(t, pool, "true")
	execute(t, pool, `UPDATE public.outbox_dead SET created_at = now() - interval '31 days' WHERE id <= 3`)
	logger := watermill.NewCaptureLogger()
	n, err := deadLetters(t, pool).WithLogger(logger).Discard(t.Context(), outbox.DeadLetterFilter{IDs: []int64{1}})
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	require.Equal(t, []any{int64(2)}, old(logger))
}
