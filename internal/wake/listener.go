package wake

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Waits between attempts to listen again.
const (
	reconnectFirst = 100 * time.Millisecond
	reconnectMax   = 10 * time.Second
	// probeAfter is how long a silent connection is trusted before it is asked whether it still lives.
	probeAfter   = 30 * time.Second
	probeTimeout = 5 * time.Second
	// echoTimeout is how long a notification of our own may take. Too short a wait on a loaded machine says once too often
	// that nothing is heard, until something is.
	echoTimeout = 5 * time.Second
)

// Listener keeps one session that listens, and rings at each notification, and after each new start: what was notified in
// between is lost. It finds out whether it hears anything.
type Listener struct {
	Connect func(ctx context.Context) (*pgx.Conn, error)
	Listen  string // the LISTEN statement
	Bell    *Bell
	Failed  func(error) // told of each lost or refused connection; may be nil

	// Notify notifies on the channel, from where the writers do; the listener calls it to see whether it hears anything
	// at all. Behind a pooler in transaction mode, or in another database, LISTEN succeeds and nothing ever comes. It must
	// not use the listener's own connection: a pooler gives that what it itself causes. Nil: that is not tried.
	Notify func(ctx context.Context) error
	// Deaf is told once when a notification of our own was not heard, and again only if something was meanwhile. Not nil
	// if Notify is not.
	Deaf func()

	up   atomic.Bool
	deaf bool // Deaf has been told
}

// Up says whether a notification would be heard now. Until a notification of our own was missed, that is assumed.
func (l *Listener) Up() bool { return l.up.Load() }

// Run listens until ctx is done.
func (l *Listener) Run(ctx context.Context) {
	wait := reconnectFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := l.session(ctx)
		l.up.Store(false)
		if ctx.Err() != nil {
			return
		}
		if l.Failed != nil {
			l.Failed(err)
		}
		if time.Since(began) > reconnectMax {
			wait = reconnectFirst
		}
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		wait = min(wait*2, reconnectMax)
	}
}

func (l *Listener) session(ctx context.Context) error {
	conn, err := l.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, l.Listen); err != nil {
		return err
	}
	l.up.Store(!l.deaf)
	l.Bell.Ring()
	return l.hear(ctx, conn)
}

// hear rings at each notification, until the connection is lost.
func (l *Listener) hear(ctx context.Context, conn *pgx.Conn) error {
	heard := l.Notify == nil
	awaited := !heard && l.notify(ctx)
	for {
		wait := probeAfter
		if awaited {
			wait = echoTimeout
		}
		silent, cancel := context.WithTimeout(ctx, wait)
		_, err := conn.WaitForNotification(silent)
		quiet := silent.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			heard, awaited, l.deaf = true, false, false
			l.up.Store(true)
			l.Bell.Ring()
		case quiet && awaited:
			awaited = false
			l.missed()
		case quiet:
			if err := probe(ctx, conn); err != nil {
				return err
			}
			awaited = !heard && l.notify(ctx)
		default:
			return err
		}
	}
}

// notify says whether there is now something to hear. A database or pool that is too busy says nothing about the listener.
func (l *Listener) notify(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return l.Notify(ctx) == nil
}

// missed makes the workers poll as they do without a listener.
func (l *Listener) missed() {
	l.up.Store(false)
	if !l.deaf {
		l.deaf = true
		l.Deaf()
	}
}

func probe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return conn.Ping(ctx)
}
