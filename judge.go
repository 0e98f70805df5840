package outbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
)

// judgement is what became of the rows of a pass.
type judgement struct {
	outcomes []claim.Outcome
	acked    int
	waiting  int   // messages that may not be tried yet, or were not charged
	decided  bool  // something was charged or buried
	outage   error // the first failure that was not charged
}

// judge turns the ends of publishes into outcomes. A failure is charged to its message only on evidence that the broker
// lives; see FailureKind.
func (f *Forwarder) judge(d *delivery, passBegan time.Duration) judgement {
	j := judgement{outcomes: make([]claim.Outcome, len(d.rows))}
	quiet := f.evidence.quiet()
	for _, group := range d.groups {
		for _, i := range group {
			row := &d.rows[i]
			switch d.state[i].Load() {
			case publishAcked:
				j.outcomes[i].Verdict = claim.Acked
				j.acked++
				if !quiet {
					f.evidence.forget(row.ID)
				}
			case publishFailed:
				j.outcomes[i] = f.charge(row, d.errs[i], passBegan)
				if j.outcomes[i].Verdict != claim.Untouched {
					j.decided = true
				} else {
					j.waiting++
					if j.outage == nil {
						j.outage = presentable(d.errs[i])
					}
				}
			case publishPending:
				j.waiting++
			}
		}
	}
	return j
}

func (f *Forwarder) charge(row *claim.Row, err error, passBegan time.Duration) claim.Outcome {
	var undecodable *undecodableError
	if errors.As(err, &undecodable) {
		return claim.Outcome{Verdict: claim.Dead, Error: storable(err.Error()), Alone: true}
	}
	kind, text := f.examine(err)
	charged := kind == FailurePermanent || kind == FailureOfMessage || kind == FailureUnknown && f.evidence.convicts(row.ID, passBegan)
	f.evidence.failed(row.ID, charged, kind == FailureOutage)
	failures := row.Attempts + 1
	switch {
	case !charged:
		return claim.Outcome{}
	case kind == FailurePermanent, f.config.Retry.MaxAttempts > 0 && failures >= f.config.Retry.MaxAttempts:
		f.evidence.forget(row.ID)
		return claim.Outcome{Verdict: claim.Dead, Error: storable(text), Charged: 1}
	}
	return claim.Outcome{Verdict: claim.Failed, Error: storable(text), Delay: f.config.Retry.wait(failures).Seconds()}
}

// examine runs code that is not ours: an error's own methods, and Classify. A panic there must not end the process, which
// would meet the same message again after its restart.
func (f *Forwarder) examine(err error) (kind FailureKind, text string) {
	defer func() {
		if p := recover(); p != nil {
			kind, text = FailureUnknown, fmt.Sprintf("outbox: an error of type %T, which can't be examined: %v", err, p)
		}
	}()
	return f.classify(err), err.Error()
}

func (f *Forwarder) classify(err error) FailureKind {
	if IsPermanent(err) {
		return FailurePermanent
	}
	if f.config.Classify != nil {
		return f.config.Classify(err)
	}
	return FailureUnknown
}

// presentable gives an error whose text can be asked for.
func presentable(err error) (safe error) {
	defer func() {
		if p := recover(); p != nil {
			safe = fmt.Errorf("outbox: an error of type %T, which can't be examined: %v", err, p)
		}
	}()
	_ = err.Error()
	return err
}

// reportDead tells the hooks of what was buried.
func (f *Forwarder) reportDead(rows []claim.Row, j judgement, s *claim.Settlement) {
	if len(f.hooks.dead) == 0 || len(s.Bury) == 0 {
		return
	}
	for _, n := range s.BuryRow {
		row := &rows[n]
		event := DeadLetterEvent{ID: row.ID, Topic: row.Topic, Key: row.Key, UUID: row.UUID, Attempts: row.Attempts, Tail: true}
		if o := j.outcomes[n]; o.Verdict == claim.Dead {
			event.Attempts, event.Err, event.Tail = row.Attempts+o.Charged, errors.New(o.Error), false
		}
		for _, hook := range f.hooks.dead {
			hook.OnDeadLetter(event)
		}
	}
}
