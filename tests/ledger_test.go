package tests

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// entry is one message as a broker gets it. The payload is the message's number within its key, from 1.
type entry struct{ source, key, uuid, payload string }

// verdict is what the broker does with a message.
type verdict int

const (
	takes           verdict = iota
	refuses                 // and does not have it
	takesAndRefuses         // has it, but the forwarder is told otherwise
)

// ledger is the broker, and the record of everything that it was given, in the order in which it was.
type ledger struct {
	judge func(entry) verdict // nil: takes everything

	mu       sync.Mutex
	keys     map[string]*keyRecord
	sources  map[string]*source
	total    int // messages, duplicates included
	first    int // without them
	disorder int // first deliveries before that of the number below
	refused  int
	denied   int // taken and refused
	foreign  []entry
	waiters  []waiter
}

// keyRecord is what arrived of one key.
type keyRecord struct {
	times map[int]int // by number
	uuids map[int]string
	top   int
}

// source is one forwarder.
type source struct {
	recorded, settled int
	greeted, running  chan struct{} // closed when it says so
	gone              chan struct{} // closed when its connection has ended and everything it sent is on record
}

type waiter struct {
	total   int
	reached chan struct{}
}

func newLedger(judge func(entry) verdict) *ledger {
	return &ledger{judge: judge, keys: map[string]*keyRecord{}, sources: map[string]*source{}}
}

// take records a message and says whether it is acknowledged.
func (l *ledger) take(e entry) bool {
	v := takes
	if l.judge != nil {
		v = l.judge(e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if v == refuses {
		l.refused++
		return false
	}
	l.record(e)
	if v == takesAndRefuses {
		l.denied++
		return false
	}
	return true
}

func (l *ledger) record(e entry) {
	l.sourceOf(e.source).recorded++
	number, err := strconv.Atoi(e.payload)
	if err != nil || number < 1 || e.uuid == "" {
		l.foreign = append(l.foreign, e)
		return
	}
	k := l.keys[e.key]
	if k == nil {
		k = &keyRecord{times: map[int]int{}, uuids: map[int]string{}}
		l.keys[e.key] = k
	}
	l.total++
	k.times[number]++
	switch {
	case k.times[number] == 1:
		l.first++
		k.uuids[number] = e.uuid
		k.top = max(k.top, number)
		if number > 1 && k.times[number-1] == 0 {
			l.disorder++
		}
	case k.uuids[number] != e.uuid:
		l.foreign = append(l.foreign, e)
	}
	for i := 0; i < len(l.waiters); i++ {
		if w := l.waiters[i]; l.total >= w.total {
			close(w.reached)
			l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
			i--
		}
	}
}

// sourceOf needs mu.
func (l *ledger) sourceOf(name string) *source {
	s := l.sources[name]
	if s == nil {
		s = &source{greeted: make(chan struct{}), running: make(chan struct{}), gone: make(chan struct{})}
		l.sources[name] = s
	}
	return s
}

// source gives a forwarder's record; its counters are to be read by inFlight.
func (l *ledger) source(name string) *source {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sourceOf(name)
}

// settled notes that a forwarder's transaction with so many acknowledged messages was committed.
func (l *ledger) settled(name string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sourceOf(name).settled += n
}

// inFlight is what a forwarder sent and is not known to have settled.
func (l *ledger) inFlight(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sourceOf(name)
	return s.recorded - s.settled
}

// reached is closed once so many messages are on record.
func (l *ledger) reached(total int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	reached := make(chan struct{})
	if l.total >= total {
		close(reached)
	} else {
		l.waiters = append(l.waiters, waiter{total, reached})
	}
	return reached
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// tally is the record against what was committed.
type tally struct{ written, delivered, duplicates, lost, disorder, refused, denied int }

func (c tally) String() string {
	return fmt.Sprintf("written %d, delivered %d, duplicates %d, lost %d, out of order %d, refused %d, refused though taken %d",
		c.written, c.delivered, c.duplicates, c.lost, c.disorder, c.refused, c.denied)
}

// tally compares with the highest committed number of each key. A number beyond it is a message that nobody committed.
func (l *ledger) tally(t testing.TB, committed map[string]int) tally {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.foreign, "messages that nobody wrote, or with another uuid when they came again")
	c := tally{delivered: l.first, duplicates: l.total - l.first, disorder: l.disorder, refused: l.refused, denied: l.denied}
	for key, top := range committed {
		c.written += top
		for number := 1; number <= top; number++ {
			if k := l.keys[key]; k == nil || k.times[number] == 0 {
				c.lost++
			}
		}
	}
	for key, k := range l.keys {
		require.LessOrEqual(t, k.top, committed[key], "key %s: a message of a transaction that did not commit", key)
	}
	return c
}

// drained waits until the outbox is empty, for as long as messages still arrive, and says how many are stranded.
func (l *ledger) drained(t testing.TB, pool *pgxpool.Pool, patience time.Duration) (stranded int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	total, since := l.count(), time.Now()
	for {
		left := count(t, pool, "public.outbox")
		if left == 0 {
			return 0
		}
		if now := l.count(); now != total {
			total, since = now, time.Now()
		}
		if time.Since(since) > patience {
			return left
		}
		<-tick.C
	}
}
