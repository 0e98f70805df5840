package stdout

import (
	"context"
	"io"
	"os"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Driver opens stdout URLs.
type Driver struct {
	// Writer is printed to, a line a Write. It has to be safe for concurrent use if it is opened twice. Defaults to
	// os.Stdout.
	Writer io.Writer
}

// Schemes is stdout.
func (Driver) Schemes() []string { return []string{"stdout"} }

// standard is os.Stdout, as it is when it is printed to; all who do take turns.
var standard = &output{writer: writerFunc(func(b []byte) (int, error) { return os.Stdout.Write(b) })}

type writerFunc func(b []byte) (int, error)

// Write calls it.
func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Open can't fail but by the URL.
func (d Driver) Open(_ context.Context, url *broker.URL, _ broker.Options) (broker.Broker, error) {
	if len(url.Hosts) > 0 || url.Path != "" {
		return nil, &broker.URLError{Part: "host", Reason: "a stdout URL has neither host nor path, it is stdout://"}
	}
	p := url.Params()
	format := formats[p.OneOf("format", "json", "json", "text")]
	if err := p.Err(); err != nil {
		return nil, err
	}
	out := standard
	if d.Writer != nil {
		out = &output{writer: d.Writer}
	}
	return &printer{publisher: &publisher{output: out, format: format}}, nil
}

// printer is an open one.
type printer struct{ publisher *publisher }

// Publisher gives the publisher.
func (p *printer) Publisher() message.Publisher { return p.publisher }

// Subscriber gives broker.ErrPublishOnly.
func (*printer) Subscriber() (message.Subscriber, error) { return nil, broker.ErrPublishOnly }

// Classify says that every error is an outage.
func (*printer) Classify(error) outbox.FailureKind { return outbox.FailureOutage }

// Ping returns nil until Close.
func (p *printer) Ping(ctx context.Context) error {
	if p.publisher.closed.Load() {
		return broker.ErrClosed
	}
	return ctx.Err()
}

// Close leaves the output open.
func (p *printer) Close() error { return p.publisher.Close() }
