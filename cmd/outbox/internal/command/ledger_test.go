package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// ledger is a broker that a test hosts, for forwarders in this process and in others: it writes down what comes.
type ledger struct {
	url string
	// verdict may refuse a message, or take its time. Nil: every one is taken.
	verdict func(entry) error

	mu      sync.Mutex
	entries []entry
}

// entry is one message that was sent.
type entry struct{ Topic, Key, UUID, Payload string }

// reply is the ledger's answer; "" is an acknowledgement.
type reply struct{ Refusal string }

func newLedger(t testing.TB, verdict func(entry) error) *ledger {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &ledger{url: "ledger://" + listener.Addr().String(), verdict: verdict}
	var serving sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			serving.Go(func() { l.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); cancel(); serving.Wait() })
	return l
}

func (l *ledger) serve(conn net.Conn) {
	requests := json.NewDecoder(bufio.NewReader(conn))
	for {
		var e entry
		if requests.Decode(&e) != nil {
			return
		}
		var r reply
		if l.verdict != nil {
			if err := l.verdict(e); err != nil {
				r.Refusal = err.Error()
			}
		}
		if r.Refusal == "" {
			l.mu.Lock()
			l.entries = append(l.entries, e)
			l.mu.Unlock()
		}
		answer, err := json.Marshal(r)
		if err != nil {
			return
		}
		if _, err := conn.Write(append(answer, '\n')); err != nil {
			return
		}
	}
}

// all gives what was taken so far, in order.
func (l *ledger) all() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]entry(nil), l.entries...)
}

// payloads are those of what was taken so far.
func (l *ledger) payloads() []string {
	payloads := []string{}
	for _, e := range l.all() {
		payloads = append(payloads, e.Payload)
	}
	return payloads
}

// ledgerDriver opens ledger://host:port.
type ledgerDriver struct{}

func (ledgerDriver) Schemes() []string { return []string{"ledger"} }

func (ledgerDriver) Open(_ context.Context, url *broker.URL, _ broker.Options) (broker.Broker, error) {
	params := url.Params()
	params.Bool("fast", false)
	addresses, err := url.Addresses("1")
	if err := errors.Join(err, params.Err()); err != nil {
		return nil, err
	}
	return &ledgerClient{address: addresses[0]}, nil
}

// ledgerClient has a connection for each publish in flight.
type ledgerClient struct {
	address string
	mu      sync.Mutex
	idle    []net.Conn
}

func (c *ledgerClient) Publisher() message.Publisher            { return c }
func (c *ledgerClient) Subscriber() (message.Subscriber, error) { return nil, broker.ErrPublishOnly }

func (c *ledgerClient) Classify(err error) outbox.FailureKind {
	var refusal refusalError
	if errors.As(err, &refusal) {
		return outbox.FailurePermanent
	}
	return outbox.FailureOutage
}

func (c *ledgerClient) Ping(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// refusalError is what the ledger has against a message.
type refusalError struct{ reason string }

func (e refusalError) Error() string { return e.reason }

func (c *ledgerClient) Publish(topic string, messages ...*message.Message) error {
	conn, err := c.take()
	if err != nil {
		return err
	}
	for _, msg := range messages {
		var r reply
		err := json.NewEncoder(conn).Encode(entry{Topic: topic, Key: outbox.Key(msg), UUID: msg.UUID, Payload: string(msg.Payload)})
		if err == nil {
			err = json.NewDecoder(conn).Decode(&r)
		}
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		if r.Refusal != "" {
			c.give(conn)
			return refusalError{r.Refusal}
		}
	}
	c.give(conn)
	return nil
}

func (c *ledgerClient) take() (net.Conn, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	return net.Dial("tcp", c.address)
}

func (c *ledgerClient) give(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
}

func (c *ledgerClient) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	c.idle = nil
	return nil
}
