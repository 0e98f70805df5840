package outbox

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// The wait before a message whose failure nobody could be charged with is tried again.
const (
	suspectInitial = 100 * time.Millisecond
	suspectMax     = 30 * time.Second
	// maxSuspects bounds the memory. Forgetting one costs a publish that could have waited.
	maxSuspects = 50_000
)

// evidence decides whether a failure is the message's or the broker's. It is the process's, not a worker's: any
// acknowledged publish shows that the broker lives.
type evidence struct {
	began   time.Time
	lastAck atomic.Int64 // nanoseconds since began; 0: none yet

	mu       sync.Mutex
	suspects map[int64]suspect // by row id
}

// suspect is a message that failed: when, and when it may be tried again although nothing was acknowledged since.
type suspect struct {
	failed  time.Duration
	retry   time.Duration
	outage  bool // said to be the broker's fault: an acknowledged publish does not end the wait
	strikes int
}

func newEvidence() *evidence {
	return &evidence{began: time.Now(), suspects: map[int64]suspect{}}
}

func (e *evidence) now() time.Duration { return time.Since(e.began) }

// acked notes that the broker lives.
func (e *evidence) acked() { e.lastAck.Store(int64(e.now())) }

func (e *evidence) ackedSince(t time.Duration) bool {
	last := e.lastAck.Load()
	return last != 0 && time.Duration(last) >= t
}

// mayTry says whether a message may be published now: one that failed waits, unless the broker has shown since that it
// lives.
func (e *evidence) mayTry(id int64) bool {
	e.mu.Lock()
	s, ok := e.suspects[id]
	e.mu.Unlock()
	return !ok || e.now() >= s.retry || !s.outage && e.ackedSince(s.failed)
}

// convicts says whether the failure of a message in a pass that began then may be charged to it.
func (e *evidence) convicts(id int64, passBegan time.Duration) bool {
	if e.ackedSince(passBegan) {
		return true
	}
	e.mu.Lock()
	s, ok := e.suspects[id]
	e.mu.Unlock()
	return ok && e.ackedSince(s.failed)
}

// failed notes a failure, charged or not; one that was charged has its back-off in the table.
func (e *evidence) failed(id int64, charged, outage bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.suspects) >= maxSuspects {
		clear(e.suspects)
	}
	now := e.now()
	s := suspect{failed: now, retry: now, outage: outage}
	if !charged {
		s.strikes = min(e.suspects[id].strikes+1, 10)
		wait := min(suspectInitial<<(s.strikes-1), suspectMax)
		s.retry += wait - time.Duration(0.2*rand.Float64()*float64(wait))
	}
	e.suspects[id] = s
}

// forget drops a message that was acknowledged or buried.
func (e *evidence) forget(id int64) {
	e.mu.Lock()
	delete(e.suspects, id)
	e.mu.Unlock()
}

// quiet says that there are no suspects, so that nobody need be asked about.
func (e *evidence) quiet() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.suspects) == 0
}
