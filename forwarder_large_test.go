package outbox_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestMessagesAboveTheByteBudgetGoAloneAndInOrder(t *testing.T) {
	pool, out := migrated(t), newBroker()
	var inFlight, most atomic.Int32
	out.fail = func(_ string, msg *message.Message) error {
		if len(msg.Payload) > 10_000 {
			n := inFlight.Add(1)
			defer inFlight.Add(-1)
			for {
				seen := most.Load()
				if n <= seen || most.CompareAndSwap(seen, n) {
					break
				}
			}
		}
		return nil
	}
	large := strings.Repeat("x", 200_000)
	var want []string
	for i := range 6 {
		for key := range 4 {
			put(t, pool, "orders", fmt.Sprint("k", key), fmt.Sprint(i, " small"), fmt.Sprint(i, large), fmt.Sprint(i, " after"))
		}
		want = append(want, fmt.Sprint(i, " small"), fmt.Sprint(i, large), fmt.Sprint(i, " after"))
	}
	for i := range 50 {
		put(t, pool, "orders", "", fmt.Sprint(i))
	}
	start(t, forwarder(t, pool, out, outbox.ForwarderConfig{BatchBytes: 40_000}))
	out.await(t, 6*4*3+50)
	for key := range 4 {
		require.Equal(t, want, out.payloads(fmt.Sprint("k", key)))
	}
	require.EqualValues(t, 1, most.Load(), "one at a time in the whole process")
}

func TestARunOnceWithLargeMessagesForwardsThemAll(t *testing.T) {
	pool, out := migrated(t), newBroker()
	put(t, pool, "orders", "a", "1", strings.Repeat("2", 50_000), strings.Repeat("3", 60_000), "4")
	n, err := forwarder(t, pool, out, outbox.ForwarderConfig{BatchBytes: 4000}).RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.Zero(t, count(t, pool, "true"))
}
