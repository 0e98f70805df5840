package outbox

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
)

type topicKey struct{}

// TopicFromContext gives the topic to which a forwarder publishes a message; its middlewares and its publisher find it in
// the message's context.
func TopicFromContext(ctx context.Context) (string, bool) {
	topic, ok := ctx.Value(topicKey{}).(string)
	return topic, ok
}

// undecodableError says that somebody's SQL wrote what no message can be made of.
type undecodableError struct{ cause error }

func (e *undecodableError) Error() string {
	return "outbox: the row's metadata is no JSON object of strings: " + e.cause.Error()
}

func (e *undecodableError) Unwrap() error { return e.cause }

// forwardedMessage makes a message of a row.
func forwardedMessage(r *claim.Row) (*message.Message, error) {
	msg := message.NewMessage(r.UUID, r.Payload)
	if err := decodeMetadata(r.Metadata, msg.Metadata); err != nil {
		return nil, &undecodableError{err}
	}
	leaveOutbox(msg.Metadata, r.Key)
	return msg, nil
}

// leaveOutbox makes of the metadata in the outbox what goes further.
func leaveOutbox(metadata message.Metadata, key string) {
	// The delay is over; left in, every further hop would delay again.
	delete(metadata, delay.DelayedForKey)
	delete(metadata, delay.DelayedUntilKey)
	if key != "" {
		metadata[KeyMetadata] = key
	}
}

// maxErrorBytes bounds what is stored of an error's text.
const maxErrorBytes = 8 << 10

// storable makes an error's text fit for a text column.
func storable(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= maxErrorBytes {
		return text
	}
	cut := maxErrorBytes
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:cut], len(text)-cut)
}
