package tests

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

var errRefused = errors.New("the broker refused the message")

// Lines to the ledger are tab-separated: the kind, then its fields. Each is answered with one byte.
const (
	lineHello   = "hello"   // name
	lineRunning = "running" //
	lineMessage = "message" // key, uuid, payload
	lineSettled = "settled" // count

	answerYes, answerNo = '+', '-'
)

// serve takes the messages of forwarder processes until the test ends, and gives the address.
func (l *ledger) serve(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var handlers sync.WaitGroup
	handlers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			handlers.Go(func() { l.handle(conn) })
		}
	})
	t.Cleanup(func() { // the processes have ended before, so their connections have too
		_ = listener.Close()
		handlers.Wait()
	})
	return listener.Addr().String()
}

func (l *ledger) handle(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
	name := ""
	for {
		line, err := in.ReadString('\n')
		if err != nil { // what a killed process has sent by half it did not get acknowledged, and sends nothing after
			break
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		answer := byte(answerYes)
		switch fields[0] {
		case lineHello:
			name = fields[1]
			close(l.source(name).greeted)
		case lineRunning:
			close(l.source(name).running)
		case lineSettled:
			n, _ := strconv.Atoi(fields[1])
			l.settled(name, n)
		case lineMessage:
			if !l.take(entry{source: name, key: fields[1], uuid: fields[2], payload: fields[3]}) {
				answer = answerNo
			}
		}
		_ = out.WriteByte(answer) // to a killed process
		if in.Buffered() == 0 {
			_ = out.Flush()
		}
	}
	if name != "" {
		close(l.source(name).gone)
	}
}

// client is a process's way to the ledger.
type client struct {
	mu      sync.Mutex
	out     *bufio.Writer
	waiting chan chan byte // in the order of the lines
}

// dialLedger says hello.
func dialLedger(address, name string) (*client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &client{out: bufio.NewWriter(conn), waiting: make(chan chan byte, 4096)}
	go func() {
		in := bufio.NewReader(conn)
		for answers := range c.waiting {
			answer, err := in.ReadByte()
			if err != nil {
				answer = 0
			}
			answers <- answer
		}
	}()
	if err := c.tell(lineHello, name); err != nil {
		return nil, err
	}
	return c, nil
}

// tell returns when the ledger has the line.
func (c *client) tell(fields ...string) error {
	answers := make(chan byte, 1)
	c.mu.Lock()
	_, err := c.out.WriteString(strings.Join(fields, "\t") + "\n")
	err = errors.Join(err, c.out.Flush())
	if err == nil {
		c.waiting <- answers
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	switch answer := <-answers; answer {
	case answerYes:
		return nil
	case answerNo:
		return errRefused
	default:
		return fmt.Errorf("the ledger is gone")
	}
}

// Publish makes the client a process's broker.
func (c *client) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := c.tell(lineMessage, outbox.Key(msg), msg.UUID, string(msg.Payload)); err != nil {
			return err
		}
	}
	return nil
}

// Close does nothing: the connection ends with the process.
func (c *client) Close() error { return nil }

// OnSettle tells the ledger what was committed.
func (c *client) OnSettle(e outbox.SettleEvent) {
	if e.Err == nil && e.Acked > 0 {
		_ = c.tell(lineSettled, strconv.Itoa(e.Acked)) // without it, the ledger takes them for unsettled
	}
}

// local is the ledger as the broker of a forwarder in this process.
type local struct {
	*ledger
	name string
}

// Publish records the messages.
func (b local) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		if !b.take(entry{source: b.name, key: outbox.Key(msg), uuid: msg.UUID, payload: string(msg.Payload)}) {
			return errRefused
		}
	}
	return nil
}

// Close does nothing.
func (b local) Close() error { return nil }
