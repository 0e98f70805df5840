package redis

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// A pipeline may take a later message although it refuses an earlier one, so two of a key are never in one.
func TestTwoOfAKeyAreNeverInOnePipeline(t *testing.T) {
	keys := []string{"a", "", "b", "a", "", "a", "b"}
	batch := make([]outbox.Outgoing, len(keys))
	for i, key := range keys {
		batch[i] = outbox.Outgoing{Topic: "t", Key: key}
	}
	c := newCutter(batch)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6}, c.next())
	require.True(t, c.transaction, "all or nothing")

	c.alone()
	require.Equal(t, []int{0, 1, 2, 4}, c.next(), "the same again, one of a key")
	require.False(t, c.transaction)
	failure := errors.New("refused")
	c.settle([]error{nil, nil, failure, nil})
	require.Equal(t, []int{3}, c.next())
	c.settle([]error{nil})
	require.Equal(t, []int{5}, c.next())
	c.settle([]error{nil})
	require.Empty(t, c.next())
	require.Equal(t, []error{nil, nil, failure, nil, nil, nil, outbox.ErrHeldBack}, c.verdicts)
}
