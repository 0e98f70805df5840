package gochannel

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/crew"
)

// Driver opens gochannel URLs.
type Driver struct{}

// Schemes is gochannel.
func (Driver) Schemes() []string { return []string{"gochannel"} }

// Open gives access to the broker of that name, which begins with the first Open.
func (Driver) Open(_ context.Context, url *broker.URL, options broker.Options) (broker.Broker, error) {
	name := ""
	switch {
	case len(url.Hosts) > 1:
		return nil, &broker.URLError{Part: "host", Reason: "it is a name, without a comma"}
	case url.Path != "":
		return nil, &broker.URLError{Part: "path", Reason: "a gochannel URL has none; topics are named by the messages"}
	case len(url.Hosts) == 1:
		name = url.Hosts[0]
	}
	p := url.Params()
	limit := p.Int("max_messages", 100_000, 1)
	if err := p.Err(); err != nil {
		return nil, err
	}
	channel := named(name)
	return &handle{channel: channel, group: options.Group, publisher: &publisher{channel: channel, limit: limit}}, nil
}

// handle is the broker as one Open gives it.
type handle struct {
	channel     *channel
	group       string
	publisher   *publisher
	subscribers crew.Subscribers
}

// Publisher gives the publisher.
func (h *handle) Publisher() message.Publisher { return h.publisher }

// Subscriber makes one that belongs to the group.
func (h *handle) Subscriber() (message.Subscriber, error) {
	return h.subscribers.Join(h.group, func() (message.Subscriber, error) { return newSubscriber(h.channel, h.group), nil })
}

// Classify says what an error of the publisher means.
func (h *handle) Classify(err error) outbox.FailureKind {
	if errors.Is(err, ErrFull) || errors.Is(err, broker.ErrClosed) {
		return outbox.FailureOutage
	}
	return outbox.FailureUnknown
}

// Ping returns nil until Close.
func (h *handle) Ping(ctx context.Context) error {
	if h.subscribers.Closed() {
		return broker.ErrClosed
	}
	return ctx.Err()
}

// Close closes the publisher and the subscribers; the messages stay.
func (h *handle) Close() error {
	return errors.Join(h.publisher.Close(), h.subscribers.Close())
}
