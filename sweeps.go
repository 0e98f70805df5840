package outbox

import (
	"sync"
	"time"
)

// sweeps spaces the sweeps so that they take no more than a share of the time.
type sweeps struct {
	share float64 // -1: only one, at the start
	mu    sync.Mutex
	begun bool
	next  time.Time
}

// minSweepPause is between two sweeps, however short they are.
const minSweepPause = 10 * time.Second

// begin says whether a sweep is due; its end must be told by calling done.
func (s *sweeps) begin() (done func(), due bool) {
	if !s.mu.TryLock() {
		return nil, false
	}
	start := time.Now()
	if s.begun && (s.share < 0 || start.Before(s.next)) {
		s.mu.Unlock()
		return nil, false
	}
	s.begun = true
	return func() {
		took := time.Since(start)
		s.next = time.Now().Add(max(time.Duration(float64(took)/s.share), minSweepPause))
		s.mu.Unlock()
	}, true
}
