package outbox_test

import (
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestHooksAreToldWhatHappens(t *testing.T) {
	pool, out := migrated(t), newBroker()
	out.fail = func(topic string, msg *message.Message) error { return outbox.Permanent(poison(topic, msg)) }
	put(t, pool, "orders", "a", "1", "poison", "3")
	h := &allHooks{}
	_, err := forwarder(t, pool, out, outbox.ForwarderConfig{Hooks: []outbox.Hook{h}}).RunOnce(t.Context())
	require.NoError(t, err)
	require.Len(t, h.publish, 2)
	require.Equal(t, "a", h.publish[0].Key)
	require.NoError(t, h.publish[0].Err)
	require.ErrorIs(t, h.publish[1].Err, errBroker)
	require.NotEmpty(t, h.claim)
	require.Equal(t, 3, h.claim[0].Rows)
	require.Equal(t, outbox.SettleEvent{Acked: 1, Dead: 2, Duration: h.settle[0].Duration}, h.settle[0])
	require.Len(t, h.dead, 2)
	require.Equal(t, 1, h.dead[0].Attempts)
	require.EqualError(t, h.dead[0].Err, "the broker refuses")
	require.False(t, h.dead[0].Tail)
	require.True(t, h.dead[1].Tail)
}

// allHooks implements all but the WakeHook.
type allHooks struct {
	mu      sync.Mutex
	claim   []outbox.ClaimEvent
	publish []outbox.PublishEvent
	settle  []outbox.SettleEvent
	dead    []outbox.DeadLetterEvent
}

func (h *allHooks) OnClaim(e outbox.ClaimEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claim = append(h.claim, e)
}
func (h *allHooks) OnPublish(e outbox.PublishEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.publish = append(h.publish, e)
}
func (h *allHooks) OnSettle(e outbox.SettleEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settle = append(h.settle, e)
}
func (h *allHooks) OnDeadLetter(e outbox.DeadLetterEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dead = append(h.dead, e)
}
