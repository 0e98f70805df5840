package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	metadata := message.Metadata{}
	if string(r.Metadata) != "{}" {
		if err := json.Unmarshal(r.Metadata, &metadata); err != nil {
			return nil, &undecodableError{err}
		}
		if bytes.Contains(r.Metadata, []byte("null")) { // which Unmarshal takes for an empty map or string
			if err := refuseNull(r.Metadata); err != nil {
				return nil, &undecodableError{err}
			}
		}
		// The delay is over; left in, every further hop would delay again.
		delete(metadata, delay.DelayedForKey)
		delete(metadata, delay.DelayedUntilKey)
	}
	if r.Key != "" {
		metadata[KeyMetadata] = r.Key
	}
	msg := message.NewMessage(r.UUID, r.Payload)
	msg.Metadata = metadata
	return msg, nil
}

func refuseNull(metadata []byte) error {
	var values map[string]*string
	if err := json.Unmarshal(metadata, &values); err != nil {
		return err
	}
	if values == nil {
		return errors.New("it is null")
	}
	for key, value := range values {
		if value == nil {
			return fmt.Errorf("the value of %q is null", key)
		}
	}
	return nil
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
