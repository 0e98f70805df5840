package wake_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/wake"
)

func TestARingWakesOneSleeper(t *testing.T) {
	bell := wake.NewBell()
	woken := make(chan wake.Reason, 3)
	ctx, cancel := context.WithCancel(t.Context())
	for range 3 {
		go func() { woken <- bell.SleepShared(ctx, time.Hour) }()
	}
	bell.Ring()
	require.Equal(t, wake.Rung, <-woken)
	require.Empty(t, woken)
	cancel()
	require.Equal(t, wake.Stopped, <-woken)
	require.Equal(t, wake.Stopped, <-woken)
}

func TestARingThatNobodyHeardWakesTheNextSleeper(t *testing.T) {
	bell := wake.NewBell()
	bell.Ring()
	bell.Ring()
	require.Equal(t, wake.Rung, bell.Sleep(t.Context(), time.Hour))
	require.Equal(t, wake.Polled, bell.Sleep(t.Context(), time.Millisecond), "two rings are one")
}

func TestAnotherSleeperPollsWhenTheFirstGoesToWork(t *testing.T) {
	bell := wake.NewBell()
	woken := make(chan wake.Reason, 3)
	for range 3 {
		go func() { woken <- bell.SleepShared(t.Context(), time.Millisecond) }()
	}
	for range 3 {
		require.Equal(t, wake.Polled, <-woken)
	}
}

func TestThePollSlowsDownFromItsShortestToItsSlowest(t *testing.T) {
	at := func(sinceHit time.Duration) time.Duration {
		return wake.Interval(sinceHit, 10*time.Millisecond, time.Second)
	}
	require.Equal(t, 10*time.Millisecond, at(0))
	require.Equal(t, 25*time.Millisecond, at(100*time.Millisecond))
	require.Equal(t, time.Second, at(time.Hour))
}
