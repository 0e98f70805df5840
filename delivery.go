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

// delivery publishes the rows of one pass: by a BatchPublisher in batches, else groups side by side, each in order, one
// message a Publish call, because most publishers stop at the first error without telling how far they got.
type delivery struct {
	f        *Forwarder
	rows     []claim.Row
	groups   [][]int
	ctx      context.Context            // done when the delivery has ended
	contexts map[string]context.Context // by topic
	begin    context.Context            // no publish starts once it is done
	patience time.Duration              // after which a publish is given up

	nextGroup  atomic.Int64
	nextBatch  cursor
	failureRun atomic.Int32
	maxRun     int32
	batchLives atomic.Bool // the batch that is being judged has acknowledged messages, so that its failures are no run
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
		f: f, rows: rows, groups: groups, ctx: ctx, contexts: map[string]context.Context{}, patience: f.config.PublishTimeout,
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
	runners := min(len(groups), f.config.PublishConcurrency)
	if f.batches != nil {
		runners = min(len(groups), 1)
		d.patience += d.patience / 4 // its context ends sooner, and then it still tells what was acknowledged
	}
	if runners > 0 {
		d.running.Store(int32(runners))
		d.start(runners)
		d.watch(run)
	}
	return d
}

func (d *delivery) start(runners int) {
	for range runners {
		if d.f.batches != nil {
			go (&batchRunner{delivery: d}).run()
		} else {
			go (&runner{delivery: d}).run()
		}
	}
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
			d.giveUp(d.f.evidence.now()-d.patience, errPublishTimeout)
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
		if err != nil {
			d.fail(i, err)
		}
		n++
	}
	runners := n
	if d.f.batches != nil { // all were in the hands of one
		runners = min(n, 1)
	}
	d.f.abandoned.Add(int64(runners))
	d.start(runners)
	return n
}

// mayBegin says whether a further publish may start, and waits until MaxPerSecond allows it.
func (d *delivery) mayBegin() bool {
	if d.halted.Load() || d.begin.Err() != nil {
		return false
	}
	if d.f.limiter != nil && d.f.limiter.Wait(d.begin) != nil {
		d.halted.Store(true)
		return false
	}
	return true
}

// started notes that a publish begins. Those of a batch begin at one time, so that they are given up together.
func (d *delivery) started(i int, now time.Duration) {
	d.since[i].Store(int64(now))
	d.state[i].Store(publishStarted)
}

// end notes what became of a publish. It says false if that was given up before.
func (d *delivery) end(i int, err error) bool {
	if !d.state[i].CompareAndSwap(publishStarted, publishEnding) {
		return false
	}
	if len(d.f.hooks.publish) > 0 {
		d.report(i, err)
	}
	if err != nil {
		d.fail(i, err)
		return true
	}
	d.state[i].Store(publishAcked)
	d.f.evidence.acked()
	if d.failureRun.Load() != 0 {
		d.failureRun.Store(0)
	}
	return true
}

func (d *delivery) report(i int, err error) {
	row := &d.rows[i]
	event := PublishEvent{Topic: row.Topic, Key: row.Key, UUID: row.UUID, Attempts: row.Attempts,
		Duration: d.f.evidence.now() - time.Duration(d.since[i].Load()), Err: err}
	for _, hook := range d.f.hooks.publish {
		hook.OnPublish(event)
	}
}

// fail ends a publish whose state is publishEnding.
func (d *delivery) fail(i int, err error) {
	d.errs[i] = err
	d.state[i].Store(publishFailed)
	if d.failureRun.Add(1) >= d.maxRun && !d.batchLives.Load() {
		d.halted.Store(true)
	}
}

func (d *delivery) slotEnded() {
	if d.running.Add(-1) == 0 {
		close(d.ended)
	}
}
