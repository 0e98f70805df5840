package outbox

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// RetryPolicy says when a failed message is tried again, and when it becomes a dead letter.
type RetryPolicy struct {
	// MaxAttempts is the number of charged failures after which a message becomes a dead letter. A failure is charged
	// only when there is evidence that the broker lives, so an outage uses up none. Defaults to 10; -1 retries for ever.
	MaxAttempts int
	// Initial is the wait after the first failure. Defaults to 1 s.
	Initial time.Duration
	// Max is the longest wait. Defaults to 5 min.
	Max time.Duration
	// Multiplier is the growth of the wait from one failure to the next, at least 1. Defaults to 2.
	Multiplier float64
	// Jitter is the share of the wait that is random, up to 1: 0.2 makes 10 s to anything from 8 s to 12 s.
	// Defaults to 0.2; -1 is none.
	Jitter float64
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	p.MaxAttempts = orDefault(p.MaxAttempts, 10)
	p.Initial = orDefault(p.Initial, time.Second)
	p.Max = orDefault(p.Max, max(5*time.Minute, p.Initial))
	p.Multiplier = orDefault(p.Multiplier, 2)
	p.Jitter = orDefault(p.Jitter, 0.2)
	return p
}

func (p RetryPolicy) validate() error {
	p = p.withDefaults()
	var problems []error
	if p.MaxAttempts < 1 && p.MaxAttempts != -1 {
		problems = append(problems, fmt.Errorf("outbox: Retry.MaxAttempts: %d must be at least 1, or -1 to retry for ever", p.MaxAttempts))
	}
	problems = append(problems, positive("Retry.Initial", p.Initial), positive("Retry.Max", p.Max))
	if p.Max < p.Initial {
		problems = append(problems, fmt.Errorf("outbox: Retry.Max: %v must not be below Retry.Initial, %v", p.Max, p.Initial))
	}
	if !(p.Multiplier >= 1) || math.IsInf(p.Multiplier, 0) {
		problems = append(problems, fmt.Errorf("outbox: Retry.Multiplier: %v must be at least 1", p.Multiplier))
	}
	if !(p.Jitter >= 0 && p.Jitter <= 1) && p.Jitter != -1 {
		problems = append(problems, fmt.Errorf("outbox: Retry.Jitter: %v must be between 0 and 1, or -1 for none", p.Jitter))
	}
	return errors.Join(problems...)
}

// wait gives the time until the next attempt after so many failures, the first being 1.
func (p RetryPolicy) wait(failures int) time.Duration {
	wait := min(float64(p.Initial)*math.Pow(p.Multiplier, float64(failures-1)), float64(p.Max))
	if p.Jitter > 0 {
		wait *= 1 + p.Jitter*(2*rand.Float64()-1)
	}
	return time.Duration(wait)
}

// FailureKind is what a failed publish means.
type FailureKind int

const (
	// FailureUnknown is judged by evidence: it is charged to the message if this process saw another publish
	// acknowledged since the pass began or since the message's previous failure, and else to nobody.
	FailureUnknown FailureKind = iota
	// FailurePermanent makes the message a dead letter at once: too large, an invalid topic, not authorised.
	FailurePermanent
	// FailureOfMessage is charged to the message without further evidence.
	FailureOfMessage
	// FailureOutage is never charged: the broker is down.
	FailureOutage
)

// DeadPolicy says what becomes of the later messages of a dead letter's key.
type DeadPolicy int

const (
	// QuarantineKey makes the key's later messages follow into the dead letters, in order, until the key is requeued
	// or its dead letters are discarded. Nothing is delivered out of order. The default.
	QuarantineKey DeadPolicy = iota
	// ContinueKey lets the later messages flow, with a gap where the dead letter was.
	ContinueKey
)

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error of a publisher or middleware as final: the message becomes a dead letter at once. It returns
// nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent says whether an error in err's tree was marked by Permanent.
func IsPermanent(err error) bool {
	var permanent permanentError
	return errors.As(err, &permanent)
}
