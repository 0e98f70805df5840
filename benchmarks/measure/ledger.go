package measure

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Ledger is told of every message that reaches the broker. It costs one side what it costs the other: some hundred
// nanoseconds a message, without a lock.
type Ledger struct {
	seen []atomic.Uint32 // how often each index came
	last []atomic.Int64  // the highest number of each key
	at   []atomic.Int64  // when each index came first, in nanoseconds since start; nil: not wanted

	start    time.Time
	target   atomic.Int64
	reached  chan struct{}
	finished atomic.Int64 // nanoseconds from start to the first time that the target was reached
	latest   atomic.Int64 // nanoseconds from start to the last message

	delivered, duplicates, foreign, disorder atomic.Int64
	sum                                      atomic.Uint64
}

// NewLedger makes a ledger for indexes below capacity and keys below keys. Its clock starts now; see Restart.
func NewLedger(capacity, keys int) *Ledger {
	l := &Ledger{
		seen: make([]atomic.Uint32, capacity), last: make([]atomic.Int64, keys),
		start: time.Now(), reached: make(chan struct{}),
	}
	l.target.Store(-1)
	return l
}

// WithTimes makes the ledger remember when each message came.
func (l *Ledger) WithTimes() *Ledger {
	l.at = make([]atomic.Int64, len(l.seen))
	return l
}

// Restart sets the clock to zero. Call it before anything is delivered.
func (l *Ledger) Restart() { l.start = time.Now() }

// Now is the time on the ledger's clock.
func (l *Ledger) Now() time.Duration { return time.Since(l.start) }

// Record notes one delivered message.
func (l *Ledger) Record(m *message.Message) {
	id, err := identify(m)
	if err != nil || id.index >= len(l.seen) || id.key >= len(l.last) {
		l.foreign.Add(1)
		return
	}
	if l.seen[id.index].Add(1) > 1 {
		l.duplicates.Add(1)
		return
	}
	if l.at != nil {
		l.at[id.index].Store(int64(l.Now()))
	}
	if id.key >= 0 && !raise(&l.last[id.key], id.number) {
		l.disorder.Add(1)
	}
	l.sum.Add(checksum(m))
	l.latest.Store(int64(l.Now()))
	if n := l.delivered.Add(1); n == l.target.Load() {
		l.arrived()
	}
}

// raise is false for a number that comes after a higher one.
func raise(last *atomic.Int64, number int64) bool {
	for {
		before := last.Load()
		if number <= before {
			return false
		}
		if last.CompareAndSwap(before, number) {
			return true
		}
	}
}

// Reached is closed once count different messages have come. One target a ledger.
func (l *Ledger) Reached(count int) <-chan struct{} {
	l.target.Store(int64(count))
	if l.delivered.Load() >= int64(count) {
		l.arrived()
	}
	return l.reached
}

func (l *Ledger) arrived() {
	if l.finished.CompareAndSwap(0, max(1, int64(l.Now()))) {
		close(l.reached)
	}
}

// Took is the time from the start until the target was reached, and 0 before.
func (l *Ledger) Took() time.Duration { return time.Duration(l.finished.Load()) }

// Latest is when the last message came so far.
func (l *Ledger) Latest() time.Duration { return time.Duration(l.latest.Load()) }

// Arrival is when an index came first.
func (l *Ledger) Arrival(index int) (time.Duration, bool) {
	return time.Duration(l.at[index].Load()), l.seen[index].Load() > 0
}

// Delivered counts different messages.
func (l *Ledger) Delivered() int64 { return l.delivered.Load() }

// Seen is what came, for a report from one process to another.
type Seen struct {
	Delivered, Duplicates, OutOfOrder, Foreign int64
	Sum                                        uint64
}

// Seen gives what came so far.
func (l *Ledger) Seen() Seen {
	return Seen{
		Delivered: l.delivered.Load(), Duplicates: l.duplicates.Load(), OutOfOrder: l.disorder.Load(),
		Foreign: l.foreign.Load(), Sum: l.sum.Load(),
	}
}

// Tally holds what came against what was written.
type Tally struct {
	Lost, Duplicates, OutOfOrder, Foreign int64
	SameContent                           bool
}

// Compare makes the tally.
func (s Seen) Compare(want Expected) Tally {
	return Tally{
		Lost: int64(want.Count) - s.Delivered, Duplicates: s.Duplicates, OutOfOrder: s.OutOfOrder, Foreign: s.Foreign,
		SameContent: s.Sum == want.Sum,
	}
}

// Err says what is wrong with a run in which nothing failed: each message was to come once, intact, in order by key.
func (t Tally) Err() error {
	var problems []error
	for _, p := range []struct {
		count int64
		what  string
	}{{t.Lost, "lost"}, {t.Duplicates, "sent twice"}, {t.OutOfOrder, "out of order by key"}, {t.Foreign, "not ours"}} {
		if p.count != 0 {
			problems = append(problems, fmt.Errorf("%d messages %s", p.count, p.what))
		}
	}
	if !t.SameContent && len(problems) == 0 {
		problems = append(problems, errors.New("the delivered messages are not those that were written"))
	}
	return errors.Join(problems...)
}
