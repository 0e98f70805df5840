package crew_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/crew"
)

type subscriber struct{ closes int }

func (*subscriber) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	return nil, broker.ErrPublishOnly
}

func (s *subscriber) Close() error {
	s.closes++
	return nil
}

func TestSubscribersAreClosedOnceAndNoneJoinsAfterwards(t *testing.T) {
	var all crew.Subscribers
	var made []*subscriber
	hire := func() (message.Subscriber, error) {
		made = append(made, &subscriber{})
		return made[len(made)-1], nil
	}
	_, err := all.Join("", hire)
	require.ErrorIs(t, err, broker.ErrNoGroup)
	_, err = all.Join("g", func() (message.Subscriber, error) { return nil, broker.ErrPublishOnly })
	require.ErrorIs(t, err, broker.ErrPublishOnly)
	for range 2 {
		_, err = all.Join("g", hire)
		require.NoError(t, err)
	}
	require.False(t, all.Closed())
	require.NoError(t, all.Close())
	require.NoError(t, all.Close())
	require.True(t, all.Closed())
	_, err = all.Join("g", hire)
	require.ErrorIs(t, err, broker.ErrClosed)
	require.Len(t, made, 2)
	for _, s := range made {
		require.Equal(t, 1, s.closes)
	}
}
