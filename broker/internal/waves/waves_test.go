package waves_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/waves"
)

func TestEachWaveHasAKeyOnceAndAFailureEndsItsKey(t *testing.T) {
	var batch []outbox.Outgoing
	for _, key := range []string{"a", "", "a", "b", "", "a", "b"} {
		batch = append(batch, outbox.Outgoing{Key: key})
	}
	bad := errors.New("bad")
	var seen [][]int
	verdicts := waves.Publish(t.Context(), batch, func(_ context.Context, wave []int, verdicts []error) {
		seen = append(seen, append([]int(nil), wave...))
		for _, i := range wave {
			if i == 1 || i == 2 {
				verdicts[i] = bad
			}
		}
	})
	require.Equal(t, [][]int{{0, 1, 3, 4}, {2, 6}}, seen)
	require.Equal(t, []error{nil, bad, bad, nil, nil, outbox.ErrHeldBack, nil}, verdicts)
}
