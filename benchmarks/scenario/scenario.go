// Package scenario holds what is measured.
package scenario

import (
	"context"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

// Scenario is one thing to measure.
type Scenario struct {
	Name string
	// About says what is compared, and how.
	About string
	Run   func(ctx context.Context, env *Env) ([]report.Result, error)
}

// All lists the scenarios in the order in which they run.
func All() []Scenario {
	return []Scenario{
		forward1ms, forward0ms, heldTransaction, wakeCeiling, wakeLatency, lateCommits, closedSubscriber, publishCost, inboxCost, kafkaForward,
		memory, limit,
	}
}
