package metrics

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestHooks(t *testing.T) {
	t.Parallel()
	m := New()
	o := m.Outbox("shop")
	o.OnClaim(outbox.ClaimEvent{Rows: 7})
	o.OnPublish(outbox.PublishEvent{Duration: time.Millisecond})
	o.OnPublish(outbox.PublishEvent{Err: errors.New("no")})
	o.OnSettle(outbox.SettleEvent{Acked: 5, Retried: 2, Parked: 3})
	o.OnSettle(outbox.SettleEvent{Acked: 100, Err: errors.New("not committed")})
	o.OnDeadLetter(outbox.DeadLetterEvent{})
	require.Equal(t, Counts{Forwarded: 5, Failed: 1, Dead: 1}, o.Counts())
	for name, want := range map[string]int{
		"claimed_total": 7, "published_total": 1, "publish_failures_total": 1, "forwarded_total": 5, "retries_total": 2, "parked_total": 3, "dead_letters_total": 1,
	} {
		got, err := testutil.GatherAndCount(m.registry, "outbox_"+name)
		require.NoError(t, err)
		require.Equal(t, 1, got, name)
		require.InDelta(t, want, map[string]float64{
			"claimed_total": testutil.ToFloat64(o.claimed), "published_total": testutil.ToFloat64(o.published),
			"publish_failures_total": testutil.ToFloat64(o.failed), "forwarded_total": testutil.ToFloat64(o.forwarded),
			"retries_total": testutil.ToFloat64(o.retried), "parked_total": testutil.ToFloat64(o.parked),
			"dead_letters_total": testutil.ToFloat64(o.dead),
		}[name], 0, name)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	m := New()
	var failed error
	reads := 0
	read := func(ctx context.Context) (outbox.Stats, error) {
		reads++
		_, limited := ctx.Deadline()
		require.True(t, limited)
		return outbox.Stats{Ready: 1, Delayed: 2, Retrying: 3, Parked: 4, Dead: 5, QuarantinedKeys: 6, OldestReadyAge: 7 * time.Second}, failed
	}
	stats := NewStats(read)
	m.Watch("shop", stats, func() error { return failed })
	names := []string{"outbox_messages", "outbox_quarantined_keys", "outbox_oldest_ready_age_seconds", "outbox_stats_up", "outbox_forwarder_healthy"}
	want := func(text string) {
		t.Helper()
		require.NoError(t, testutil.GatherAndCompare(m.registry, strings.NewReader(text), names...))
	}
	const helps = `
# HELP outbox_forwarder_healthy 1 if the forwarder works or is idle, 0 if something is in its way.
# TYPE outbox_forwarder_healthy gauge
# HELP outbox_stats_up 1 if the counts of messages could be read, else 0, and they are missing.
# TYPE outbox_stats_up gauge
`
	const counts = `
# HELP outbox_messages Messages in the outbox by state; dead are the dead letters.
# TYPE outbox_messages gauge
outbox_messages{outbox="shop",state="ready"} 1
outbox_messages{outbox="shop",state="delayed"} 2
outbox_messages{outbox="shop",state="retrying"} 3
outbox_messages{outbox="shop",state="parked"} 4
outbox_messages{outbox="shop",state="dead"} 5
# HELP outbox_quarantined_keys Keys with dead letters that hold back what follows.
# TYPE outbox_quarantined_keys gauge
outbox_quarantined_keys{outbox="shop"} 6
# HELP outbox_oldest_ready_age_seconds Longest time that a message could have been forwarded and was not.
# TYPE outbox_oldest_ready_age_seconds gauge
outbox_oldest_ready_age_seconds{outbox="shop"} 7
`
	want(helps + "outbox_forwarder_healthy{outbox=\"shop\"} 1\noutbox_stats_up{outbox=\"shop\"} 1\n" + counts)

	failed = errors.New("down")
	want(helps + "outbox_forwarder_healthy{outbox=\"shop\"} 0\noutbox_stats_up{outbox=\"shop\"} 1\n" + counts)
	require.Equal(t, 1, reads, "counted not too often")

	stats.until = time.Time{}
	want(helps + "outbox_forwarder_healthy{outbox=\"shop\"} 0\noutbox_stats_up{outbox=\"shop\"} 0\n")
	require.Equal(t, 2, reads)
}
