package stdout

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// publisher is the message.Publisher. It is no outbox.BatchPublisher: a message is a Write, whoever calls.
type publisher struct {
	output *output
	format func(topic string, msg *message.Message) ([]byte, error)
	closed atomic.Bool
}

// Publish prints one message after the other, and stops at the first that fails.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if p.closed.Load() {
			return broker.ErrClosed
		}
		line, err := p.format(topic, msg)
		if err != nil {
			return fmt.Errorf("stdout: %w", err)
		}
		if err := p.output.print(line); err != nil {
			return fmt.Errorf("stdout: %w", err)
		}
	}
	return nil
}

// Close leaves the output open. It may be called twice.
func (p *publisher) Close() error {
	p.closed.Store(true)
	return nil
}

// output is where the lines of several publishers go.
type output struct {
	mu     sync.Mutex
	writer io.Writer
	torn   bool // it ends in the middle of a line
}

// print writes a line, which has its end.
func (o *output) print(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.torn {
		line = append([]byte("\n"), line...)
	}
	n, err := o.writer.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if n > 0 {
		o.torn = n < len(line) && line[n-1] != '\n'
	}
	return err
}
