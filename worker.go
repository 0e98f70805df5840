package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
	"github.com/watermill-outbox/watermill-outbox/internal/wake"
)

// Waits after the database's errors, after an outage of the broker, and of the adaptive poll.
const (
	databaseWaitFirst = 100 * time.Millisecond
	databaseWaitMost  = 5 * time.Second
	outageWaitFirst   = 100 * time.Millisecond
	pollFirst         = 5 * time.Millisecond
	// busyStreak is the number of passes with work, one after the other, after which a forwarder counts as awake and stops
	// the bell. A steady trickle must not: each arming leaves a moment in which commits are found by the poll only.
	busyStreak = 10
	// calmAfter is how long there must have been nothing before the bell is armed: under load a forwarder falls idle many
	// times a second, and each arming makes the writers notify.
	calmAfter = 50 * time.Millisecond
	// idleSessionEnded is SQLSTATE idle_session_timeout.
	idleSessionEnded = "57P05"
	// maxAbandoned is the number of publishes that may hang beyond their timeout: a broker that takes everything and
	// answers nothing must not be given goroutines without end.
	maxAbandoned = 1000
)

// worker runs passes on a connection of its own.
type worker struct {
	f *Forwarder
	*run
	listener *wake.Listener // nil: polls only
	idle     *idleCount
	session  *claim.Session

	lanes      int        // at most, a claim
	full       bool       // the last claim left lanes with work to others, or got all that it looked at
	small      bool       // small messages first, within the byte budget
	stretch    int        // looks so many batches far, past messages that may not be tried
	failureRun int32      // failures without a success that end a pass
	fromZero   bool       // the next pass is a sweep
	oversized  *oversized // to be taken alone by the next pass
	streak     int        // passes with work, one after the other
	lastHit    time.Time
}

// oversized is a message above a worker's share of BatchBytes.
type oversized struct {
	id   int64
	lane int
}

// idleCount counts the workers of a process that have nothing to do. The last one arms the bell.
type idleCount struct{ n atomic.Int32 }

func (f *Forwarder) newWorker(run *run, listener *wake.Listener, idle *idleCount) *worker {
	return &worker{f: f, run: run, listener: listener, idle: idle, stretch: 1, failureRun: firstFailureRun, lastHit: time.Now(),
		lanes: (claim.Lanes + f.config.Workers - 1) / f.config.Workers}
}

// loop works until the stop, on one connection after another.
func (w *worker) loop() {
	back := backoff{first: databaseWaitFirst, most: databaseWaitMost}
	for w.stop.Err() == nil {
		err := w.onConnection(func() error { return w.passes(&back) })
		if w.stop.Err() != nil {
			return
		}
		if err != nil && !endedForIdleness(err) {
			w.f.unwell(&w.f.health.database, err)
			back.wait(w.stop)
		}
	}
}

// endedForIdleness says that the server ended the connection of a worker that slept: idle_session_timeout, which no
// transaction can set for itself.
func endedForIdleness(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == idleSessionEnded
}

// onConnection gives do a connection and takes it back. After an error nothing of what was remembered holds: the server
// may have crashed, and be another one.
func (w *worker) onConnection(do func() error) error {
	waiting, cancel := context.WithTimeout(w.stop, databaseWaitMost)
	conn, err := w.f.pool.Acquire(waiting)
	cancel()
	if err != nil {
		return fmt.Errorf("outbox: waiting for a connection of the pool: %w", err)
	}
	defer conn.Release()
	w.session = &claim.Session{Conn: conn.Conn(), SQL: &w.f.sql}
	err = do()
	if err != nil {
		w.f.book.Forget()
	}
	return err
}

func (w *worker) passes(back *backoff) error {
	outage := backoff{first: outageWaitFirst, most: max(w.f.config.PollInterval, outageWaitFirst)}
	for w.stop.Err() == nil {
		p, err := w.nextPass()
		switch {
		case errors.Is(err, claim.ErrIncarnation):
			w.f.book.Forget()
			continue
		case err != nil:
			return err
		}
		back.reset()
		if p.outage != nil {
			w.f.unwell(&w.f.health.broker, outageError(p.outage))
			outage.wait(w.stop)
			continue
		}
		w.f.health.database.set(nil)
		if p.acked > 0 || p.idle {
			outage.reset()
			w.f.health.broker.set(nil)
		}
		if w.oversized != nil {
			continue
		}
		if err := w.rest(p); err != nil {
			return err
		}
	}
	return nil
}

// once runs passes until one finds nothing to do. Messages that are left because of an outage of a part of the broker are
// an outage too.
func (w *worker) once() (forwarded int, err error) {
	err = w.onConnection(func() error {
		if err := w.lookForStuckKeys(); err != nil {
			return err
		}
		var excused error
		for {
			if err := w.stop.Err(); err != nil {
				return err
			}
			p, err := w.nextPass()
			forwarded += p.acked
			if p.excused != nil {
				excused = p.excused
			}
			switch {
			case errors.Is(err, claim.ErrIncarnation):
				w.f.book.Forget()
			case err != nil:
				return err
			case p.outage != nil:
				return outageError(p.outage)
			case !p.progress && !p.large && w.oversized == nil:
				if p.waiting > 0 && excused != nil {
					return outageError(excused)
				}
				return nil
			}
		}
	})
	return forwarded, err
}

// nextPass runs a pass with what belongs around it: the sweep, and the token for a large message. Never two passes for
// large messages one after the other: one that can't be delivered must not keep the rest waiting.
func (w *worker) nextPass() (passed, error) {
	if done, due := w.f.sweeps.begin(); due {
		defer done()
		if err := w.lookForStuckKeys(); err != nil {
			return passed{}, err
		}
		w.fromZero = true
		defer func() { w.fromZero = false }()
	}
	w.awaitToken()
	if w.f.abandoned.Load() >= maxAbandoned {
		return passed{outage: errPublishTimeout}, nil
	}
	large := w.oversized
	if large == nil {
		return w.pass(nil)
	}
	defer func() { w.oversized = nil }()
	select {
	case w.f.oversized <- struct{}{}:
		defer func() { <-w.f.oversized }()
		return w.pass(large)
	default: // another worker has one in its hands
		return w.pass(nil)
	}
}

// awaitToken waits until MaxPerSecond allows a publish: better here than in an open transaction.
func (w *worker) awaitToken() {
	for w.f.limiter != nil && w.stop.Err() == nil {
		missing := 1 - w.f.limiter.Tokens()
		if missing <= 0 {
			return
		}
		timer := time.NewTimer(time.Duration(missing / w.f.config.MaxPerSecond * float64(time.Second)))
		select {
		case <-timer.C:
		case <-w.stop.Done():
		}
		timer.Stop()
	}
}

func (w *worker) lookForStuckKeys() error {
	ctx, cancel := w.detached()
	defer cancel()
	return w.session.StuckKeys(ctx, w.f.book, statementTimeout)
}

func outageError(err error) error {
	return fmt.Errorf("outbox: no publish was acknowledged, nothing was charged: %w", err)
}

func (f *Forwarder) connectListener(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if f.config.ListenDSN != "" {
		return pgx.Connect(ctx, f.config.ListenDSN)
	}
	config := f.pool.Config()
	conn := config.ConnConfig.Copy()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, conn); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, conn)
}

// backoff doubles a wait, with jitter.
type backoff struct {
	first, most time.Duration
	next        time.Duration
}

func (b *backoff) reset() { b.next = 0 }

// wait returns after the wait or when ctx is done.
func (b *backoff) wait(ctx context.Context) {
	b.next = min(max(b.next, b.first), b.most)
	timer := time.NewTimer(b.next*3/4 + rand.N(b.next/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	b.next *= 2
}
