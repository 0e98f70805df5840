package outbox

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Outgoing is a message on its way from the outbox to the broker.
type Outgoing struct {
	Topic string
	// Key is the ordering key; empty asks for no order.
	Key     string
	Message *message.Message
}

// BatchPublisher is what the publisher of a Forwarder may be besides a message.Publisher: one that takes many messages at
// once and has a verdict on each. A Forwarder then calls PublishBatch and not Publish, unless it has Middlewares. Those of
// the brokers in the packages below broker are.
type BatchPublisher interface {
	message.Publisher

	// PublishBatch publishes and returns one verdict a message: nil only if the broker has acknowledged that very message,
	// ErrHeldBack if it was not tried.
	//
	// The messages of a key stand in their order. One may be in the broker only if those of its key before it in the batch
	// are: where the broker can take a later one although it refuses an earlier one, the later one has to wait for the
	// earlier one's verdict, whatever their topics are.
	//
	// Once ctx is done, at the latest after PublishTimeout, it returns soon, with an error for what has no verdict. It is
	// called concurrently, never with one key in two calls.
	PublishBatch(ctx context.Context, batch []Outgoing) []error
}

// ErrHeldBack is a BatchPublisher's verdict on a message that it did not try, because an earlier one of its key failed. It
// is no failure: the message keeps its place.
var ErrHeldBack = errors.New("outbox: held back, because an earlier message of the same key was not acknowledged")
