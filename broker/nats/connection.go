package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/lazy"
)

// connection is made when it is needed, and comes back by itself after an outage. It is safe for concurrent use.
type connection struct {
	settings *settings
	denials  denials
	link     lazy.Value[*link]

	mu   sync.Mutex
	last error // why there is none
}

// link is a connection that was made; it may be interrupted.
type link struct {
	*client.Conn
	jetstream.JetStream
}

func newConnection(s *settings, buffer int) *connection {
	c := &connection{settings: s}
	c.link.Make = func() (*link, error) { return c.dial(buffer) }
	return c
}

// dial connects, for the first time.
func (c *connection) dial(buffer int) (*link, error) {
	opts := append(c.settings.clientOptions(), client.ReconnectBufSize(buffer),
		client.ErrorHandler(c.failed), client.ReconnectErrHandler(c.lost), client.DisconnectErrHandler(c.disconnected),
		client.ReconnectHandler(func(*client.Conn) { c.settings.Logger.Info("nats: connected again", nil) }))
	conn, err := connect(opts)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncTimeout(publishTimeout), jetstream.WithPublishAsyncMaxPending(maxInFlight),
		jetstream.WithDefaultTimeout(askTimeout))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("nats: %w", err)
	}
	return &link{conn, js}, nil
}

func connect(opts []client.Option) (*client.Conn, error) {
	conn, err := client.Connect("", opts...)
	if err != nil {
		return nil, &NotConnectedError{err}
	}
	return conn, nil
}

// get gives the connection, or at once a *NotConnectedError while it is interrupted.
func (c *connection) get(ctx context.Context) (*link, error) {
	l, err := c.link.Peek()
	if err != nil {
		return nil, err
	}
	if l == nil {
		return c.first(ctx)
	}
	if !(*l).IsConnected() {
		return nil, c.why()
	}
	return *l, nil
}

// first waits for the first connection, or for ctx: the others may wait for it longer.
func (c *connection) first(ctx context.Context) (*link, error) {
	type result struct {
		link *link
		err  error
	}
	made := make(chan result, 1)
	go func() {
		l, err := c.link.Get()
		made <- result{l, err}
	}()
	select {
	case r := <-made:
		return r.link, r.err
	case <-ctx.Done():
		return nil, &NotConnectedError{context.Cause(ctx)}
	}
}

func (c *connection) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return &NotConnectedError{client.ErrDisconnected}
	}
	return &NotConnectedError{c.last}
}

func (c *connection) lost(_ *client.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = err
}

func (c *connection) disconnected(conn *client.Conn, err error) {
	c.lost(conn, err)
	if err != nil { // nil: it was closed
		c.settings.Logger.Error("nats: the connection is lost", err, nil)
	}
}

// failed is told what belongs to no call: most of it is found by one all the same.
func (c *connection) failed(_ *client.Conn, _ *client.Subscription, err error) {
	switch {
	case errors.Is(err, client.ErrPermissionViolation):
		c.denials.deny(err)
		c.settings.Logger.Debug("nats: not permitted", watermill.LogFields{"err": err})
	case refused(err):
		c.settings.Logger.Debug("nats: not let in", watermill.LogFields{"err": err})
	default:
		c.settings.Logger.Error("nats: asynchronous error", err, nil)
	}
}

// ping asks for the account, over a new connection while the other is interrupted: what counts is whether one can be had.
func (c *connection) ping(ctx context.Context) error {
	l, err := c.get(ctx)
	if err != nil && !errors.Is(err, broker.ErrClosed) {
		if l, err = c.probe(ctx); err == nil {
			defer l.Close()
		}
	}
	if err != nil {
		return err
	}
	err = c.denials.guard(ctx, []string{"$JS.API.INFO"}, func(ctx context.Context) error {
		_, err := l.AccountInfo(ctx)
		return err
	})
	if denied := new(PermissionError); errors.As(err, &denied) {
		return nil // it is there, and knows who we are
	}
	if err != nil {
		return fmt.Errorf("nats: asking for the account: %w", err)
	}
	return nil
}

func (c *connection) probe(ctx context.Context) (*link, error) {
	opts := append(c.settings.clientOptions(), client.NoReconnect(), client.ErrorHandler(c.failed))
	if deadline, ok := ctx.Deadline(); ok {
		opts = append(opts, client.Timeout(max(time.Millisecond, min(dialTimeout, time.Until(deadline)))))
	}
	conn, err := connect(opts)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	return &link{conn, js}, err
}

// close sends what is buffered, and closes.
func (c *connection) close() error {
	return c.link.Close(func(l *link) error {
		if l.IsConnected() {
			_ = l.FlushTimeout(dialTimeout) // the acknowledgements that are lost come again
		}
		l.Close()
		return nil
	})
}
