package main

import (
	"context"
	"fmt"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// requeued is what came of the dead letters.
type requeued struct{ before, tail, back, after int }

// repair looks at the dead letters, mends what was wrong with the broker, and puts them back.
func (s *story) repair(ctx context.Context) (r requeued, err error) {
	letters, err := outbox.NewDeadLetters(s.database.pool, s.database.outbox())
	if err != nil {
		return r, err
	}
	filter := outbox.DeadLetterFilter{Key: keyOf(regular), Limit: -1}
	list, err := letters.List(ctx, filter)
	if err != nil {
		return r, err
	}
	for _, letter := range list {
		r.before++
		if letter.Tail {
			r.tail++
			continue
		}
		s.screen.bad("A dead letter: order %s of %s, %q.", letter.UUID[:8], letter.Key, letter.LastError)
	}
	s.screen.say("Behind it, in order, the customer's %d later orders. Nobody else had to wait.", r.tail)

	s.broker.poison.Store(nil)
	moved, err := letters.Requeue(ctx, filter)
	if err != nil {
		return r, err
	}
	r.back = int(moved)
	s.screen.good("The broker is mended, and the customer's %d orders are requeued.", moved)
	if err := s.awaitEmptyOutbox(ctx); err != nil {
		return r, err
	}
	stats, err := outbox.ReadStats(ctx, s.database.pool, s.database.outbox())
	if err != nil {
		return r, fmt.Errorf("counting what is dead now: %w", err)
	}
	r.after = int(stats.Dead)
	return r, nil
}
