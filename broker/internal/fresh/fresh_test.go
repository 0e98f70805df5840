package fresh_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker/internal/fresh"
)

type key struct{}

func TestAContextThatIsOverLendsItsValuesOnly(t *testing.T) {
	parent, end := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	live, cancel := fresh.Context(parent)
	defer cancel()
	end()
	require.ErrorIs(t, live.Err(), context.Canceled, "one that is not over yet can end the publish")
	late, cancel := fresh.Context(parent)
	defer cancel()
	require.NoError(t, late.Err())
	require.Equal(t, "value", late.Value(key{}))
	_, bounded := late.Deadline()
	require.True(t, bounded)
}
