package lazy_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/lazy"
)

func TestAValueIsMadeOnceByWhoComesFirstAndAgainAfterAnError(t *testing.T) {
	down := errors.New("down")
	var tries atomic.Int32
	v := lazy.Value[int]{Make: func() (int, error) {
		if tries.Add(1) == 1 {
			return 0, down
		}
		return 7, nil
	}}
	_, err := v.Get()
	require.ErrorIs(t, err, down)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			value, err := v.Get()
			if err != nil || value != 7 {
				t.Errorf("got %d, %v", value, err)
			}
		})
	}
	all.Wait()
	require.Equal(t, int32(2), tries.Load())
}

// Close comes while the value is being made: it must be closed too.
func TestCloseWaitsForWhatIsBeingMade(t *testing.T) {
	making, finish := make(chan struct{}), make(chan struct{})
	v := lazy.Value[int]{Make: func() (int, error) {
		close(making)
		<-finish
		return 7, nil
	}}
	got := make(chan error, 1)
	go func() {
		_, err := v.Get()
		got <- err
	}()
	<-making
	closed := make(chan int, 1)
	go func() {
		_ = v.Close(func(value int) error { closed <- value; return nil })
	}()
	close(finish)
	require.Equal(t, 7, <-closed)
	<-got
	_, err := v.Get()
	require.ErrorIs(t, err, broker.ErrClosed)
	require.NoError(t, v.Close(func(int) error { panic("again") }))
}
