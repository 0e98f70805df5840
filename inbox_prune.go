package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	pruneBatch = 1000            // messages forgotten in one statement
	pruneEvery = time.Minute     // at the most often, when there is nothing left to forget
	pruneRest  = 20              // and never more than one part in so many of the time
	pruneLimit = 2 * time.Second // what a message may wait for it, when the pool is busy
)

// pruning says when to forget next.
type pruning struct {
	mu   sync.Mutex
	next time.Time
}

// due says whether it is time, to one caller each time.
func (p *pruning) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.next) {
		return false
	}
	p.next = now.Add(pruneEvery)
	return true
}

func (p *pruning) done(began, now time.Time, more bool) {
	if !more {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = now.Add(pruneRest * now.Sub(began))
}

// Prune forgets the consumer's messages recorded longer ago than Retention, by the database's clock, and returns their
// number. An Inbox does that itself now and then, after a commit: call it from a job if you want it at a time of your own. It works in
// small statements, side by side with handlers and other Prunes, and stops between two when ctx ends.
func (i *Inbox) Prune(ctx context.Context) (int64, error) {
	var total int64
	if ctx == nil {
		return 0, errNilContext
	}
	for i.config.Retention >= 0 {
		more, forgotten, err := i.pruneOnce(ctx)
		total += forgotten
		if err != nil {
			return total, fmt.Errorf("outbox: pruning the inbox of %s: %w", i.config.Schema, withSchemaHint(err))
		}
		if !more {
			break
		}
	}
	return total, nil
}

func (i *Inbox) pruneOnce(ctx context.Context) (more bool, forgotten int64, err error) {
	var found int64
	err = i.database.transaction(ctx, func(tx database) error {
		if err := tx.exec(ctx, i.sql.ReadWrite); err != nil {
			return err
		}
		return tx.query(ctx, i.sql.Prune, []any{i.config.Retention.Seconds(), pruneBatch, i.config.Consumer},
			func(scan func(...any) error) error { return scan(&found, &forgotten) })
	})
	if err != nil {
		return false, 0, err
	}
	return found == pruneBatch, forgotten, nil
}

// pruneNowAndThen is no reason for a message to fail.
func (i *Inbox) pruneNowAndThen(ctx context.Context) {
	began := time.Now()
	if i.config.Retention < 0 || !i.pruning.due(began) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pruneLimit)
	defer cancel()
	more, _, err := i.pruneOnce(ctx)
	if err != nil {
		i.logger.Error("The inbox could not be pruned; it is tried again", err, nil)
	}
	i.pruning.done(began, time.Now(), more)
}
