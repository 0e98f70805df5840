package outbox

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
)

// firstFailureRun is the number of failures without a success after which a pass starts no more publishes: the broker is
// likely down, and every further message would only be tried for nothing. It doubles with each such pass, so that good
// messages behind many bad ones are reached: the first that is acknowledged shows that the broker lives.
const firstFailureRun = 16

// States of a publish. A publish ends once: whoever changes the state from publishStarted owns its end.
const (
	publishPending int32 = iota
	publishStarted
	publishEnding
	publishAcked
	publishFailed
)

// delivery publishes the rows of one pass: groups side by side, each in order, one message a Publish call, because most
// publishers stop at the first error without telling how far they got.
type delivery struct {
	f        *Forwarder
	rows     []claim.Row
	groups   [][]int
	contexts map[string]context.Context // by topic
	begin    context.Context            // no publish starts once it is done

	nextGroup  atomic.Int64
	failureRun atomic.Int32
	maxRun     int32
	halted     atomic.Bool

	state []atomic.Int32
	since []atomic.Int64 // when a publish started, as evidence.now
	errs  []error        // to be read of failed ones only

	running atomic.Int32 // runners that are not written off
	ended   chan struct{}
}

// deliver publishes and returns when every publish has ended or outlived its timeout. It starts none after the pass's
// budget, after a stop, and after a run of failures. When the stop times out it does not wait either.
func (f *Forwarder) deliver(run *run, rows []claim.Row, groups [][]int, maxRun int32) *delivery {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // a publisher that outlived its timeout is told so
	d := &delivery{
		f: f, rows: rows, groups: groups, contexts: map[string]context.Context{},
		state: make([]atomic.Int32, len(rows)), since: make([]atomic.Int64, len(rows)), errs: make([]error, len(rows)),
		maxRun: maxRun, ended: make(chan struct{}),
	}
	for _, group := range groups {
		for _, i := range group {
			if topic := rows[i].Topic; d.contexts[topic] == nil {
				d.contexts[topic] = context.WithValue(ctx, topicKey{}, topic)
			}
		}
	}
	var done context.CancelFunc
	d.begin, done = context.WithTimeout(run.stop, f.config.PassTimeout)
	defer done()
	if n := min(len(groups), f.config.PublishConcurrency); n > 0 {
		d.running.Store(int32(n)) //nolint:gosec // at most BatchSize
		for range n {
			go (&runner{delivery: d}).run()
		}
		d.watch(run)
	}
	return d
}

// watch waits for the runners, and is the one watchdog of the pass: a goroutine and a timer per publish cost a fifth of
// the throughput.
func (d *delivery) watch(run *run) {
	tick := time.NewTicker(max(d.f.config.PublishTimeout/8, time.Millisecond))
	defer tick.Stop()
	begin := d.begin.Done()
	for {
		select {
		case <-d.ended:
			return
		case <-begin:
			d.halted.Store(true)
			begin = nil
		case <-tick.C:
			d.giveUp(d.f.evidence.now()-d.f.config.PublishTimeout, errPublishTimeout)
		case <-run.abandon.Done():
			d.halted.Store(true)
			if d.giveUp(d.f.evidence.now(), nil) > 0 {
				run.timedOut.Store(true)
			}
			return
		}
	}
}

// giveUp ends the publishes that started before then, and counts them. Their runners are written off, and replaced.
// Without an error they count as neither acknowledged nor failed: a stop is no failure.
func (d *delivery) giveUp(before time.Duration, err error) (n int) {
	for i := range d.state {
		if time.Duration(d.since[i].Load()) > before || !d.state[i].CompareAndSwap(publishStarted, publishEnding) {
			continue
		}
		d.f.abandoned.Add(1)
		if err != nil {
			d.fail(i, err)
		}
		go (&runner{delivery: d}).run()
		n++
	}
	return n
}

// fail ends a publish whose state is publishEnding.
func (d *delivery) fail(i int, err error) {
	d.errs[i] = err
	d.state[i].Store(publishFailed)
	if d.failureRun.Add(1) >= d.maxRun {
		d.halted.Store(true)
	}
}

func (d *delivery) slotEnded() {
	if d.running.Add(-1) == 0 {
		close(d.ended)
	}
}
