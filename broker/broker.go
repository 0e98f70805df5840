package broker

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Broker is one that was opened. It is safe for concurrent use.
type Broker interface {
	// Publisher gives the broker's publisher, the same one at each call; most are an outbox.BatchPublisher too. It is
	// synchronous: nil means that the broker has the message.
	Publisher() message.Publisher
	// Subscriber makes a subscriber of Options.Group. It is an error wrapping ErrNoGroup if there is none, and one wrapping
	// ErrPublishOnly if nothing can be received from this broker. Close closes it, if its own Close did not.
	Subscriber() (message.Subscriber, error)
	// Classify says what an error of the publisher means; it is made for outbox.ForwarderConfig.
	Classify(err error) outbox.FailureKind
	// Ping returns nil if the broker can be reached and accepts who we are.
	Ping(ctx context.Context) error
	// Close closes the publisher and the subscribers. It may be called twice.
	Close() error
}

// Options are what a URL does not say.
type Options struct {
	// Group is the consumer group: its subscribers share the messages, every other group gets its own copy. All copies of
	// a service use the same. Only Subscriber needs it.
	Group string
	// User and Password are used when the URL has none. They default to BROKER_USER and BROKER_PASSWORD of the environment.
	User, Password string
	// Logger is told what the broker's client has to tell. Nil logs nothing.
	Logger watermill.LoggerAdapter
}

// Driver opens the brokers of one kind.
type Driver interface {
	// Schemes are those of the URLs that it opens, the preferred one first.
	Schemes() []string
	// Open is called by a Mux, with a URL of one of its schemes, and Options that are complete.
	Open(ctx context.Context, url *URL, options Options) (Broker, error)
}
