// Package wake puts idle workers to sleep and wakes them: by a ring, or by the poll that backs it.
package wake

import (
	"context"
	"time"
)

// Bell wakes the sleeping workers of one process. Safe for concurrent use.
type Bell struct {
	ring   chan struct{}
	poller chan struct{} // full while somebody polls: one worker is enough
}

// NewBell returns a bell that nobody has rung.
func NewBell() *Bell {
	return &Bell{ring: make(chan struct{}, 1), poller: make(chan struct{}, 1)}
}

// Ring wakes one worker, or, when none sleeps, the next one that is about to.
func (b *Bell) Ring() {
	select {
	case b.ring <- struct{}{}:
	default:
	}
}

// Reason is why Sleep returned.
type Reason int

// The reasons.
const (
	Rung Reason = iota
	Polled
	Stopped
)

// Sleep returns at the next ring, after interval, or when ctx is done.
func (b *Bell) Sleep(ctx context.Context, interval time.Duration) Reason {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-b.ring:
		return Rung
	case <-ctx.Done():
		return Stopped
	case <-timer.C:
		return Polled
	}
}

// SleepShared is Sleep for those that have long had nothing to do: only one of them returns after interval, and when it
// goes to work another takes its place.
func (b *Bell) SleepShared(ctx context.Context, interval time.Duration) Reason {
	select {
	case <-b.ring:
		return Rung
	case <-ctx.Done():
		return Stopped
	case b.poller <- struct{}{}:
	}
	defer func() { <-b.poller }()
	return b.Sleep(ctx, interval)
}

// Interval is the adaptive poll: short after something was found, longer with the time since, up to slowest.
func Interval(sinceHit, shortest, slowest time.Duration) time.Duration {
	return min(max(sinceHit/4, shortest), slowest)
}
