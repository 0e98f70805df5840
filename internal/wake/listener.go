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
)

// Listener keeps one session that listens, and rings at each notification, and after each new start: what was notified in
// between is lost.
type Listener struct {
	Connect func(ctx context.Context) (*pgx.Conn, error)
	Listen  string // the LISTEN statement
	Bell    *Bell
	Failed  func(error) // told of each lost or refused connection; may be nil

	up atomic.Bool
}

// Up says whether a notification would be heard now.
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
	l.up.Store(true)
	l.Bell.Ring()
	for {
		silent, cancel := context.WithTimeout(ctx, probeAfter)
		_, err := conn.WaitForNotification(silent)
		quiet := silent.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			l.Bell.Ring()
		case quiet:
			if err := probe(ctx, conn); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func probe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return conn.Ping(ctx)
}
