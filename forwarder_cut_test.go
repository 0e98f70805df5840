package outbox_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// The message fails for the last time, and the connection over which that would be written is cut while it does.
func TestAMessageWhoseConnectionIsCutAtItsLastAttemptDiesAllTheSame(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		onDead outbox.DeadPolicy
		dead   []string
		alive  []string
	}{
		"quarantine": {outbox.QuarantineKey, []string{"poison|3|the broker refuses|false", "1|0||true", "2|0||true"}, nil},
		"continue":   {outbox.ContinueKey, []string{"poison|3|the broker refuses|false"}, []string{"1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, out := migrated(t), newBroker()
			var attempts, cuts atomic.Int32
			out.fail = func(topic string, msg *message.Message) error {
				err := poison(topic, msg)
				if err != nil && attempts.Add(1) == 3 {
					var ended int
					if err := pool.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
						WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&ended); err != nil {
						return err
					}
					cuts.Add(int32(ended))
				}
				return err
			}
			put(t, pool, "orders", "bad", "poison", "1")
			start(t, forwarder(t, pool, out, outbox.ForwarderConfig{Workers: 1, Retry: quickRetry, OnDead: c.onDead, PollInterval: 20 * time.Millisecond,
				Classify: func(error) outbox.FailureKind { return outbox.FailureOfMessage }}))
			for i := range 20 {
				put(t, pool, "orders", fmt.Sprint("good ", i), "1", "2")
			}
			eventually(t, "the poison is dead", func() bool { return len(dead(t, pool)) > 0 })
			put(t, pool, "orders", "bad", "2")
			out.await(t, 40+len(c.alive))
			eventually(t, "everything is settled", func() bool { return count(t, pool, "true") == 0 })
			require.Equal(t, int32(1), cuts.Load())
			require.Equal(t, int32(4), attempts.Load(), "the attempt that could not be written was made again")
			require.Equal(t, c.dead, dead(t, pool))
			require.Equal(t, c.alive, out.payloads("bad"))
			for i := range 20 {
				require.Contains(t, fmt.Sprint(out.payloads(fmt.Sprint("good ", i))), "1 2", "once more at most, for the cut")
			}
		})
	}
}
