package amqp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/singleflight"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

const (
	heartbeat    = 10 * time.Second // a connection without a sign of life for twice as long is dead
	closeTimeout = 5 * time.Second
)

// connectError says that there is no connection, whatever the reason is: nobody can publish.
type connectError struct{ err error }

func (e *connectError) Error() string { return fmt.Sprintf("amqp: connecting: %v", e.err) }
func (e *connectError) Unwrap() error { return e.err }

// blockedError says that the server takes nothing from those who publish.
type blockedError struct{ reason string }

func (e *blockedError) Error() string {
	return fmt.Sprintf("amqp: the server has blocked the connection: %s", e.reason)
}

// link is a connection that is made when it is needed, and made anew when it has ended. It is safe for concurrent use.
type link struct {
	settings
	purpose string

	flight singleflight.Group
	mu     sync.Mutex
	now    *live
	closed bool
}

// live is one connection.
type live struct {
	*amqp091.Connection
	blocked atomic.Pointer[blockedError]

	mu     sync.Mutex
	topics map[string]bool // whose exchange is there
}

// get gives the connection, and makes one if there is none. Callers that come together share one try.
func (l *link) get(ctx context.Context) (*live, error) {
	if now, err := l.peek(); now != nil || err != nil {
		return now, err
	}
	result := l.flight.DoChan("", func() (any, error) {
		if now, err := l.peek(); now != nil || err != nil {
			return now, err
		}
		made, err := l.connect()
		if err != nil {
			return nil, &connectError{err}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed {
			_ = made.CloseDeadline(time.Now().Add(closeTimeout))
			return nil, broker.ErrClosed
		}
		l.now = made
		return made, nil
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*live), nil //nolint:forcetypeassert // it is what the function above returns
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *link) peek() (*live, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, broker.ErrClosed
	case l.now != nil && !l.now.IsClosed():
		return l.now, nil
	}
	return nil, nil //nolint:nilnil // there is none, which is no error
}

// connect tries one address after the other.
func (l *link) connect() (*live, error) {
	scheme := "amqp"
	if l.tls != nil {
		scheme = "amqps"
	}
	var problems []error
	for _, address := range l.addresses {
		config := amqp091.Config{
			SASL:      []amqp091.Authentication{&amqp091.PlainAuth{Username: l.user, Password: l.password}},
			Vhost:     l.vhost,
			Heartbeat: heartbeat,
			Dial:      amqp091.DefaultDial(l.timeout),
			Properties: amqp091.Table{
				"product": "watermill-outbox", "connection_name": filepath.Base(os.Args[0]) + " " + l.purpose,
			},
		}
		if l.tls != nil {
			config.TLSClientConfig = l.tls.Clone()
		}
		conn, err := amqp091.DialConfig(scheme+"://"+address+"/", config)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", address, err))
			continue
		}
		made := &live{Connection: conn, topics: map[string]bool{}}
		go made.watch(conn.NotifyBlocked(make(chan amqp091.Blocking, 1)))
		return made, nil
	}
	return nil, errors.Join(problems...)
}

// watch ends with the connection.
func (l *live) watch(blockings <-chan amqp091.Blocking) {
	for b := range blockings {
		if b.Active {
			l.blocked.Store(&blockedError{b.Reason})
		} else {
			l.blocked.Store(nil)
		}
	}
}

// refusal is an error while the server takes nothing.
func (l *live) refusal() error {
	if blocked := l.blocked.Load(); blocked != nil {
		return blocked
	}
	return nil
}

// close closes the connection; a server that does not answer is not waited for longer than closeTimeout.
func (l *link) close() error {
	l.mu.Lock()
	now, first := l.now, !l.closed
	l.closed = true
	l.mu.Unlock()
	if !first || now == nil || now.IsClosed() {
		return nil
	}
	err := now.CloseDeadline(time.Now().Add(closeTimeout))
	if err != nil && !errors.Is(err, amqp091.ErrClosed) {
		return fmt.Errorf("amqp: closing: %w", err)
	}
	return nil
}
