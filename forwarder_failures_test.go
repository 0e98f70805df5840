package outbox_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

var errBroker = errors.New("the broker refuses")

// poison fails every message with the payload "poison".
func poison(_ string, msg *message.Message) error {
	if string(msg.Payload) == "poison" {
		return errBroker
	}
	return nil
}

var quickRetry = outbox.RetryPolicy{Initial: time.Millisecond, Max: 2 * time.Millisecond, MaxAttempts: 3}

func TestPoisonAmongGoodMessagesDiesAndDelaysNoOtherKey(t *testing.T) {
	pool, out := migrated(t), newBroker()
	out.fail = poison
	put(t, pool, "orders", "bad", "poison", "behind it")
	for i := range 100 {
		put(t, pool, "orders", fmt.Sprint("good ", i), "1")
	}
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{Retry: quickRetry}))
	out.await(t, 100)
	// The retries need company that shows that the broker lives.
	eventually(t, "the poison and its tail are dead letters", func() bool {
		put(t, pool, "orders", "", "company")
		return count(t, pool, "key = 'bad'") == 0
	})
	require.Empty(t, out.payloads("bad"))
	require.Equal(t, []string{"poison|3|the broker refuses|false", "behind it|0||true"}, dead(t, pool))
}

func TestTwoPoisonMessagesAndNothingElseAreChargedToNobodyUntilAGoodOneConvictsThem(t *testing.T) {
	pool, out := migrated(t), newBroker()
	var tries atomic.Int32
	out.fail = func(topic string, msg *message.Message) error {
		tries.Add(1)
		return poison(topic, msg)
	}
	put(t, pool, "orders", "a", "poison")
	put(t, pool, "orders", "", "poison")
	f := start(t, forwarder(t, pool, out, outbox.ForwarderConfig{Retry: quickRetry}))
	eventually(t, "both were tried several times", func() bool { return tries.Load() >= 8 })
	require.Equal(t, 2, count(t, pool, "attempts = 0 AND NOT holds AND next_attempt_at IS NULL"), "nothing is written without evidence")
	require.ErrorIs(t, f.Health(), errBroker)

	good := 0
	eventually(t, "a trickle of good messages has convicted both", func() bool {
		put(t, pool, "orders", "good", "1")
		good++
		out.await(t, good) // and is not held up by the poison
		return count(t, pool, "true") == 0
	})
	require.Len(t, dead(t, pool), 2)
	require.NoError(t, f.Health())
}

func TestAnOutageUsesUpNoAttempts(t *testing.T) {
	pool, out := migrated(t), newBroker()
	var down atomic.Bool
	var failures atomic.Int32
	down.Store(true)
	out.fail = func(string, *message.Message) error {
		if down.Load() {
			failures.Add(1)
			return errBroker
		}
		return nil
	}
	for i := range 20 {
		put(t, pool, "orders", fmt.Sprint(i%5), fmt.Sprint(i))
		put(t, pool, "orders", "", fmt.Sprint(i))
	}
	f := start(t, forwarder(t, pool, out, outbox.ForwarderConfig{Retry: quickRetry, PollInterval: 20 * time.Millisecond}))
	// Far more failures than MaxAttempts for each of them.
	eventually(t, "the outage lasts for many back-offs", func() bool { return failures.Load() >= 120 })
	require.Equal(t, 40, count(t, pool, "attempts = 0 AND NOT holds AND next_attempt_at IS NULL"))
	require.ErrorIs(t, f.Health(), errBroker)
	down.Store(false)
	out.await(t, 40)
	for key := range 5 {
		var want []string
		for i := key; i < 20; i += 5 {
			want = append(want, fmt.Sprint(i))
		}
		require.Equal(t, want, out.payloads(fmt.Sprint(key)))
	}
	require.Empty(t, dead(t, pool))
	eventually(t, "it is well again", func() bool { return f.Health() == nil })
}

func TestAnOutageOfOneTopicDelaysThatTopicOnly(t *testing.T) {
	pool, out := migrated(t), newBroker()
	var down atomic.Bool
	down.Store(true)
	out.fail = func(topic string, _ *message.Message) error {
		if topic == "invoices" && down.Load() {
			return errBroker
		}
		return nil
	}
	for i := range 10 {
		put(t, pool, "invoices", fmt.Sprint("i", i), "1", "2", "3")
		put(t, pool, "orders", fmt.Sprint("o", i), "1", "2", "3")
	}
	retry := outbox.RetryPolicy{Initial: 5 * time.Millisecond, Max: 50 * time.Millisecond, MaxAttempts: -1}
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{Retry: retry}))
	out.await(t, 30)
	require.Len(t, out.all(), 30)
	down.Store(false)
	out.await(t, 60)
	for i := range 10 {
		require.Equal(t, []string{"1", "2", "3"}, out.payloads(fmt.Sprint("i", i)))
	}
	require.Empty(t, dead(t, pool))
}

func TestGoodMessagesBehindManyPoisonousOnesAreFound(t *testing.T) {
	pool, out := migrated(t), newBroker()
	out.fail = poison
	bad := make([]string, 3000)
	for i := range bad {
		bad[i] = "poison"
	}
	put(t, pool, "orders", "", bad...)
	put(t, pool, "orders", "good", numbered(1, 50)...)
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{Retry: quickRetry, PollInterval: 20 * time.Millisecond}))
	out.await(t, 50)
	put(t, pool, "orders", "good", numbered(51, 100)...)
	out.await(t, 100)
	require.Equal(t, numbered(1, 100), out.payloads("good"))
}

func TestAnOutageOfAPartDoesNotHideTheRest(t *testing.T) {
	pool, out := migrated(t), newBroker()
	out.fail = poison
	bad := make([]string, 2000)
	for i := range bad {
		bad[i] = "poison"
	}
	put(t, pool, "orders", "", bad...)
	classify := func(error) outbox.FailureKind { return outbox.FailureOutage }
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{Classify: classify, PollInterval: 20 * time.Millisecond}))
	for i := range 20 {
		put(t, pool, "orders", "good", fmt.Sprint(i+1))
		out.await(t, i+1)
	}
	require.Equal(t, numbered(1, 20), out.payloads("good"))
	require.Equal(t, 2000, count(t, pool, "key = '' AND attempts = 0 AND NOT holds"))
}

// oddError is a typed nil in disguise: asking for its text panics.
type oddError struct{ text string }

func (e *oddError) Error() string { return e.text }

func TestAnErrorThatCannotBeExaminedIsAFailureOfItsMessage(t *testing.T) {
	pool, out := migrated(t), newBroker()
	out.fail = func(_ string, msg *message.Message) error {
		if string(msg.Payload) == "odd" {
			var e *oddError
			return e
		}
		return nil
	}
	put(t, pool, "orders", "a", "odd")
	put(t, pool, "orders", "b", "1")
	n, err := forwarder(t, pool, out, outbox.ForwarderConfig{Retry: outbox.RetryPolicy{Initial: time.Hour, Max: time.Hour}}).RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, 1, count(t, pool, "attempts = 1 AND last_error LIKE '%oddError%'"))
}

func TestARowThatCannotBeStoredAsFailedDoesNotMakeItsNeighboursComeAgain(t *testing.T) {
	pool, out := migrated(t), newBroker()
	_, err := pool.Exec(t.Context(), `ALTER TABLE public.outbox_dead ADD CHECK (topic <> 'refused')`)
	require.NoError(t, err)
	out.fail = func(topic string, msg *message.Message) error { return outbox.Permanent(poison(topic, msg)) }
	put(t, pool, "refused", "a", "poison")
	for i := range 20 {
		put(t, pool, "orders", fmt.Sprint(i), "1")
	}
	_, err = forwarder(t, pool, out, outbox.ForwarderConfig{}).RunOnce(t.Context())
	require.ErrorContains(t, err, "violates check constraint")
	require.Equal(t, 1, count(t, pool, "true"), "what was acknowledged is settled")
	_, err = forwarder(t, pool, out, outbox.ForwarderConfig{}).RunOnce(t.Context())
	require.ErrorContains(t, err, "violates check constraint")
	require.Len(t, out.all(), 20)
}

func TestHealthEndsWithTheTrouble(t *testing.T) {
	pool, out := migrated(t), newBroker()
	out.fail = func(string, *message.Message) error { return errBroker }
	f := start(t, forwarder(t, pool, out, outbox.ForwarderConfig{PollInterval: 20 * time.Millisecond}))
	put(t, pool, "orders", "a", "1")
	eventually(t, "the trouble shows", func() bool { return f.Health() != nil })
	other := forwarder(t, pool, newBroker(), outbox.ForwarderConfig{})
	eventually(t, "somebody else delivers it", func() bool { // unless the first one is trying it just then
		n, err := other.RunOnce(t.Context())
		require.NoError(t, err)
		return n == 1
	})
	eventually(t, "nothing is in the way any more", func() bool { return f.Health() == nil && count(t, pool, "true") == 0 })
}

func TestAPermanentFailureDiesAtOnce(t *testing.T) {
	pool, out := migrated(t), newBroker()
	out.fail = func(topic string, msg *message.Message) error {
		return outbox.Permanent(poison(topic, msg))
	}
	put(t, pool, "orders", "a", "poison", "2")
	put(t, pool, "orders", "b", "1")
	n, err := forwarder(t, pool, out, outbox.ForwarderConfig{}).RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"poison|1|the broker refuses|false", "2|0||true"}, dead(t, pool))
}

func TestContinueKeyLetsTheTailFlow(t *testing.T) {
	pool, out := migrated(t), newBroker()
	out.fail = func(topic string, msg *message.Message) error {
		return outbox.Permanent(poison(topic, msg))
	}
	put(t, pool, "orders", "a", "1", "poison", "2", "3")
	_, err := forwarder(t, pool, out, outbox.ForwarderConfig{OnDead: outbox.ContinueKey}).RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "3"}, out.payloads("a"))
	require.Equal(t, []string{"poison|1|the broker refuses|false"}, dead(t, pool))
}

func TestClassifyDecidesWhatAFailureMeans(t *testing.T) {
	for _, c := range []struct {
		kind     outbox.FailureKind
		attempts int
		dead     int
		wantErr  bool
	}{
		{outbox.FailurePermanent, 0, 1, false},
		{outbox.FailureOfMessage, 1, 0, false},
		{outbox.FailureOutage, 0, 0, true},
		{outbox.FailureUnknown, 0, 0, true},
	} {
		t.Run(fmt.Sprint(c.kind), func(t *testing.T) {
			pool, out := migrated(t), newBroker()
			out.fail = poison
			put(t, pool, "orders", "a", "poison")
			classify := func(error) outbox.FailureKind { return c.kind }
			_, err := forwarder(t, pool, out, outbox.ForwarderConfig{Classify: classify}).RunOnce(t.Context())
			if c.wantErr {
				require.ErrorIs(t, err, errBroker)
			} else {
				require.NoError(t, err)
			}
			require.Len(t, dead(t, pool), c.dead)
			require.Equal(t, 1-c.dead, count(t, pool, fmt.Sprint("attempts = ", c.attempts)))
		})
	}
}

func TestAnOutageOfAPartIsAnErrorOfRunOnceAlthoughTheRestGoesOn(t *testing.T) {
	pool, out := migrated(t), newBroker()
	out.fail = poison
	put(t, pool, "orders", "a", "poison", "2")
	put(t, pool, "orders", "b", "1")
	classify := func(error) outbox.FailureKind { return outbox.FailureOutage }
	n, err := forwarder(t, pool, out, outbox.ForwarderConfig{Classify: classify}).RunOnce(t.Context())
	require.ErrorIs(t, err, errBroker)
	require.Equal(t, 1, n)
	require.Equal(t, 2, count(t, pool, "attempts = 0 AND NOT holds"))
}

func TestAnOddErrorTextIsStored(t *testing.T) {
	pool, out := migrated(t), newBroker()
	out.fail = func(string, *message.Message) error {
		return outbox.Permanent(errors.New("a\x00b\xffc" + strings.Repeat("é", 1<<20)))
	}
	put(t, pool, "orders", "a", "1")
	_, err := forwarder(t, pool, out, outbox.ForwarderConfig{}).RunOnce(t.Context())
	require.NoError(t, err)
	stored := dead(t, pool)
	require.Len(t, stored, 1)
	require.Contains(t, stored[0], "a\uFFFDb\uFFFDcéé")
	require.Less(t, len(stored[0]), 10_000)
}

func TestUndecodableRowDiesAlone(t *testing.T) {
	for _, metadata := range []string{`{"a": 1}`, `[]`, `"text"`, `null`, `{"a": null}`, `{"a": {"b": "c"}}`} {
		t.Run(metadata, func(t *testing.T) {
			pool, out := migrated(t), newBroker()
			put(t, pool, "orders", "a", "1")
			_, err := pool.Exec(t.Context(), `INSERT INTO public.outbox (topic, key, uuid, payload, metadata) VALUES ('orders', 'a', 'odd', 'odd', $1)`, metadata)
			require.NoError(t, err)
			put(t, pool, "orders", "a", "2")
			_, err = forwarder(t, pool, out, outbox.ForwarderConfig{}).RunOnce(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"1", "2"}, out.payloads("a"))
			letters := dead(t, pool)
			require.Len(t, letters, 1)
			require.Contains(t, letters[0], "odd|0|outbox: the row's metadata is no JSON object of strings")
		})
	}
}
