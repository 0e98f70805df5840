package outbox

import (
	"errors"
	"fmt"
	"time"
)

// Hook is one or more of ClaimHook, PublishHook, SettleHook, DeadLetterHook and WakeHook; one that is none of them is
// refused by Validate. Hooks are called synchronously by the workers: they must be quick and safe for concurrent use, and
// must not panic, which would end the process.
type Hook any

// ClaimHook is told of each claim.
type ClaimHook interface{ OnClaim(ClaimEvent) }

// ClaimEvent is one claim; Err is nil when it succeeded.
type ClaimEvent struct {
	Rows, Lanes int
	Duration    time.Duration
	Err         error
}

// PublishHook is told of each publish that ended.
type PublishHook interface{ OnPublish(PublishEvent) }

// PublishEvent is one publish; Err is nil when the broker acknowledged it.
type PublishEvent struct {
	Topic, Key, UUID string
	Attempts         int // failures charged before this one
	Duration         time.Duration
	Err              error
}

// SettleHook is told of each settlement.
type SettleHook interface{ OnSettle(SettleEvent) }

// SettleEvent is one settlement; Err is nil when it was committed.
type SettleEvent struct {
	Acked, Retried, Parked, Dead int
	Duration                     time.Duration
	Err                          error
}

// DeadLetterHook is told of each message that became a dead letter, after that was committed.
type DeadLetterHook interface{ OnDeadLetter(DeadLetterEvent) }

// DeadLetterEvent is one dead letter.
type DeadLetterEvent struct {
	ID               int64
	Topic, Key, UUID string
	Attempts         int
	Err              error // nil for a tail
	Tail             bool  // it never failed itself, but follows one of its key that did
}

// WakeHook is told when an idle forwarder is woken.
type WakeHook interface{ OnWake(WakeEvent) }

// WakeEvent is one waking.
type WakeEvent struct {
	Reason WakeReason
	Slept  time.Duration
}

// WakeReason is what woke a forwarder.
type WakeReason string

// The reasons.
const (
	WakeBell WakeReason = "bell" // a notification, or Forwarder.Wake
	WakePoll WakeReason = "poll" // the poll interval
	WakeStop WakeReason = "stop"
)

func validateHooks(hooks []Hook) error {
	var problems []error
	for i, hook := range hooks {
		switch hook.(type) {
		case ClaimHook, PublishHook, SettleHook, DeadLetterHook, WakeHook:
		default:
			problems = append(problems, fmt.Errorf("outbox: Hooks[%d]: %T implements none of ClaimHook, PublishHook, SettleHook, DeadLetterHook and WakeHook", i, hook))
		}
	}
	return errors.Join(problems...)
}

// hookSet has the hooks sorted by what they implement, so that an event without a hook costs a length check.
type hookSet struct {
	claim   []ClaimHook
	publish []PublishHook
	settle  []SettleHook
	dead    []DeadLetterHook
	wake    []WakeHook
}

func newHookSet(hooks []Hook) (set hookSet) {
	for _, hook := range hooks {
		if h, ok := hook.(ClaimHook); ok {
			set.claim = append(set.claim, h)
		}
		if h, ok := hook.(PublishHook); ok {
			set.publish = append(set.publish, h)
		}
		if h, ok := hook.(SettleHook); ok {
			set.settle = append(set.settle, h)
		}
		if h, ok := hook.(DeadLetterHook); ok {
			set.dead = append(set.dead, h)
		}
		if h, ok := hook.(WakeHook); ok {
			set.wake = append(set.wake, h)
		}
	}
	return set
}
