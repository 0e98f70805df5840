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
	large    bool  // it was for one large message
	waiting  int   // messages that may not be tried now
	excused  error // a failure that nobody was charged with
	outage   error // the same, and no success beside it
}

// pass claims, publishes and settles once; given a large message, that one and what is in its lane. An error is the
// database's.
func (w *worker) pass(large *oversized) (p passed, err error) {
	f := w.f
	began := f.evidence.now()
	p.large = large != nil
	view := f.book.View(w.order(large), f.config.ScanFromZero || w.fromZero)
	limits := w.limits(large)
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
	settlement := plan.Settle(j.outcomes)
	w.oversized = f.tooLarge(plan, limits.Bytes)
	if !p.large {
		w.small = settlement.Over && j.acked == 0 && !w.small // those that fail must not have all the bytes for ever
	}
	w.look(settlement, j)
	if j.outage != nil && j.acked == 0 && !j.decided {
		p.outage = j.outage
		ctx, cancel := w.detached()
		defer cancel()
		return p, w.session.Rollback(ctx)
	}

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

// order gives lanes in random order, or the one lane of a large message.
func (w *worker) order(large *oversized) []int {
	if large != nil {
		return []int{large.lane}
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

func (w *worker) limits(large *oversized) claim.Limits {
	c := &w.f.config
	var id int64
	if large != nil {
		id = large.id
	}
	rows := min(c.BatchSize*w.stretch, math.MaxInt32/64)
	if c.MaxPerSecond > 0 { // no more than can be published in a second
		rows = max(1, min(rows, int(math.Ceil(c.MaxPerSecond/float64(c.Workers)))))
	}
	return claim.Limits{
		Rows:      rows,
		Bytes:     int64(max(1, c.BatchBytes/c.Workers)),
		Oversized: id,
		Small:     w.small,
		Lanes:     w.lanes,
		Idle:      c.PassTimeout + c.PublishTimeout + statementTimeout,
		Bell:      w.f.doorbell.Load(),
	}
}

// look notes how far the next pass should look.
func (w *worker) look(s *claim.Settlement, j judgement) {
	switch {
	case s.Over: // the byte budget has cut it, looking further gives nothing
	case s.Left == 0:
		w.stretch = 1
	case s.Blocked || j.acked == 0: // there may be good ones behind those that stay; once found, keep looking that far
		w.stretch = min(w.stretch*2, maxStretch)
	}
	if j.waiting == 0 || j.acked > 0 {
		w.failureRun = firstFailureRun
	} else {
		w.failureRun = min(w.failureRun*2, math.MaxInt16)
	}
}

// tooLarge chooses one of the messages that alone are above the byte limit, which a pass of its own may try: the first of
// its key, and not one that has to wait after a failure.
func (f *Forwarder) tooLarge(plan *claim.Plan, bytes int64) (chosen *oversized) {
	stopped := map[string]bool{}
	candidates := 0
	for i := range plan.Rows {
		r := &plan.Rows[i]
		if r.Over && r.Size > bytes && !stopped[r.Key] && f.evidence.mayTry(r.ID) {
			if candidates++; rand.IntN(candidates) == 0 {
				chosen = &oversized{id: r.ID, lane: int(r.Lane)}
			}
		}
		if r.Key != "" && (r.Over || r.Locked) {
			stopped[r.Key] = true
		}
	}
	return chosen
}
