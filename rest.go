package outbox

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/watermill-outbox/watermill-outbox/internal/wake"
)

// rest decides what comes between two passes: nothing while there is work, else a sleep until the bell or the poll.
func (w *worker) rest(p passed) error {
	if p.progress {
		w.lastHit = time.Now()
		if p.more {
			w.f.bell.Ring()
		}
		if w.streak++; p.bell && w.streak >= busyStreak {
			return w.arm(false)
		}
		return nil
	}
	w.streak = 0
	last := int(w.idle.n.Add(1)) == w.f.config.Workers
	defer w.idle.n.Add(-1)
	hears := w.listener != nil && w.listener.Up()
	began := time.Now()
	if last && hears && !p.bell && began.Sub(w.lastHit) > calmAfter {
		// Nobody else is awake to see what is committed from here on. What was committed before the bell was armed is
		// found by one more pass.
		return w.arm(true)
	}
	// Fast at first although the bell is armed: what was written before and commits from here on does not ring it.
	interval := wake.Interval(began.Sub(w.lastHit), min(pollFirst, w.f.config.PollInterval), w.f.config.PollInterval)
	sleep := w.f.bell.Sleep
	if interval >= w.f.config.PollInterval {
		sleep = w.f.bell.SleepShared
	}
	reason := sleep(w.stop, interval)
	for _, hook := range w.f.hooks.wake {
		hook.OnWake(WakeEvent{Reason: wakeReasons[reason], Slept: time.Since(began)})
	}
	return nil
}

var wakeReasons = map[wake.Reason]WakeReason{wake.Rung: WakeBell, wake.Polled: WakePoll, wake.Stopped: WakeStop}

// arm sets or clears the doorbell. Written only on a change: each is 150 bytes of WAL.
func (w *worker) arm(on bool) error {
	ctx, cancel := w.detached()
	defer cancel()
	batch := &pgx.Batch{}
	batch.Queue(w.f.sql.Begin) // it writes, whatever the inherited default_transaction_read_only says
	batch.Queue(w.f.sql.SetBell, on)
	batch.Queue("COMMIT")
	return w.session.Conn.SendBatch(ctx, batch).Close()
}
