package outbox

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
)

// statementTimeout bounds one round trip of a claim or a settlement. They take milliseconds; a network that swallows
// packets must not hold a worker for ever.
const (
	statementTimeout = 30 * time.Second
	lastGrace        = 5 * time.Second
)

// maxStretch is how far a worker looks past messages that it may not try: up to so many times its batch.
const maxStretch = 64

// passed is what one pass did.
type passed struct {
	acked    int
	progress bool  // something was settled, charged, parked or buried
	more     bool  // there was more to do than this worker took
	bell     bool  // the doorbell is armed
	idle     bool  // no lane had anything to do
	waiting  int   // messages that may not be tried now
	excused  error // a failure that nobody was charged with
	outage   error // the same, and no success beside it
}

// pass claims, publishes and settles once. An error is the database's.
func (w *worker) pass() (p passed, err error) {
	f := w.f
	began := f.evidence.now()
	view := f.book.View(w.order(), f.config.ScanFromZero || w.fromZero)
	limits := w.limits()
	claimed, err := w.claim(view, limits)
	if err != nil {
		return p, err
	}
	p.bell = claimed.Bell
	w.full = claimed.Busy > len(claimed.Lanes) || len(claimed.Lanes) > 0 && len(claimed.Lanes) == len(view.Lanes)
	p.more = w.full

	f.take(claimed.Lanes, true)
	defer f.take(claimed.Lanes, false)

	plan := claim.NewPlan(claimed.Rows, claimed.Allowed, f.config.OnDead == QuarantineKey)
	groups := plan.Groups()
	d := f.deliver(w.run, plan.Rows, groups, w.failureRun)
	j := f.judge(d, began)
	p.idle = claimed.Busy == 0 && len(view.Lanes) == claim.Lanes
	p.acked, p.waiting, p.excused = j.acked, j.waiting, j.outage
	w.look(plan, limits, j)
	if j.outage != nil && j.acked == 0 && !j.decided {
		p.outage = j.outage
		ctx, cancel := w.detached()
		defer cancel()
		return p, w.session.Rollback(ctx)
	}

	settlement := plan.Settle(j.outcomes)
	p.progress = len(settlement.Done)+len(settlement.Retry)+len(settlement.Park)+len(settlement.Bury) > 0
	if err := w.settle(claimed, settlement, view); err != nil {
		return p, err
	}
	f.reportDead(plan.Rows, j, settlement)
	return p, nil
}

// detached is the context of the database's part of a pass: a stop does not cut it short, so that what was acknowledged
// is settled. Only when the stop itself has timed out is the database given no more than lastGrace.
func (w *worker) detached() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	release := context.AfterFunc(w.abandon, func() { time.AfterFunc(lastGrace, cancel) })
	return ctx, func() { release(); cancel() }
}

func (w *worker) claim(view claim.View, limits claim.Limits) (*claim.Claimed, error) {
	ctx, cancel := w.detached()
	defer cancel()
	defer context.AfterFunc(w.abandon, cancel)()
	start := time.Now()
	claimed, err := w.session.Claim(ctx, view, limits)
	for _, hook := range w.f.hooks.claim {
		event := ClaimEvent{Duration: time.Since(start), Err: err}
		if err == nil {
			event.Rows, event.Lanes = len(claimed.Rows), len(claimed.Lanes)
		}
		hook.OnClaim(event)
	}
	return claimed, err
}

func (w *worker) settle(claimed *claim.Claimed, s *claim.Settlement, view claim.View) error {
	ctx, cancel := w.detached()
	defer cancel()
	start := time.Now()
	report, err := w.session.Settle(ctx, claimed, s, w.f.book, view)
	if len(claimed.Rows) > 0 {
		for _, hook := range w.f.hooks.settle {
			hook.OnSettle(SettleEvent{Acked: len(s.Done), Retried: len(s.Retry), Parked: len(s.Park), Dead: len(s.Bury), Duration: time.Since(start), Err: err})
		}
	}
	if report.Gone > 0 {
		w.f.logger.Error("Messages that were forwarded had already been deleted by somebody else", nil, watermill.LogFields{"messages": report.Gone})
	}
	return err
}

// order gives lanes in random order, or the one lane of an oversized row.
func (w *worker) order() []int {
	if w.oversized != nil && w.holdsOversized {
		return []int{*w.oversized}
	}
	order := rand.Perm(claim.Lanes)
	if w.full { // there is more than enough: lanes of other workers, and more than this one can take, need not be probed
		order = slices.DeleteFunc(order, func(lane int) bool { return w.f.taken[lane].Load() })
		order = order[:min(w.lanes, len(order))]
	}
	return order
}

// take tells the siblings which lanes this worker has.
func (f *Forwarder) take(lanes []int16, taken bool) {
	for _, lane := range lanes {
		f.taken[lane].Store(taken)
	}
}

func (w *worker) limits() claim.Limits {
	c := &w.f.config
	rows := min(c.BatchSize*w.stretch, math.MaxInt32/64)
	if c.MaxPerSecond > 0 { // no more than can be published in a second
		rows = max(1, min(rows, int(math.Ceil(c.MaxPerSecond/float64(c.Workers)))))
	}
	return claim.Limits{
		Rows:      rows,
		Bytes:     int64(max(1, c.BatchBytes/c.Workers)),
		Oversized: w.holdsOversized,
		Lanes:     w.lanes,
		Idle:      c.PassTimeout + c.PublishTimeout + statementTimeout,
		Bell:      w.f.doorbell.Load(),
	}
}

// look notes what the next pass should do differently.
func (w *worker) look(plan *claim.Plan, limits claim.Limits, j judgement) {
	w.oversized = nil
	for i := range plan.Rows {
		if r := &plan.Rows[i]; r.Locked && r.Size > limits.Bytes {
			lane := int(r.Lane)
			w.oversized = &lane
			break
		}
	}
	switch {
	case j.waiting == 0:
		w.stretch, w.failureRun = 1, firstFailureRun
	case j.acked > 0: // there are good ones behind those that wait: keep looking that far
		w.failureRun = firstFailureRun
	default:
		w.stretch = min(w.stretch*2, maxStretch)
		w.failureRun = min(w.failureRun*2, math.MaxInt16)
	}
}
