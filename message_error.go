package outbox

import (
	"fmt"
	"strings"
)

// MessageError says which message was refused, and why: one of a Publish call, or one that came to an Inbox. Nothing of that
// call was stored, no SQL was executed, and the transaction is as usable as before. Its text never contains payloads or
// metadata values.
type MessageError struct {
	// Index is the message's position in the call, from 0. A topic, which all messages share, is refused with the first.
	Index int
	// UUID of the message.
	UUID string
	// Field is what was refused: message, topic, key, uuid, payload, metadata, metadata["name"], check or transaction; by
	// an Inbox its id, or the handler's name.
	Field string
	// Reason says what is wrong, and what would be right.
	Reason string
	// Err is the cause, if there is one: what Key or Check returned, ErrNoTransaction, ErrMixedTransactions.
	Err error
}

// Error gives all of it in one line.
func (e *MessageError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "outbox: message %d", e.Index)
	if e.UUID != "" {
		fmt.Fprintf(&text, " (uuid %s)", excerpt(e.UUID))
	}
	text.WriteString(": " + e.Field)
	if e.Reason != "" {
		text.WriteString(": " + e.Reason)
	}
	if e.Err != nil {
		text.WriteString(": " + strings.TrimPrefix(e.Err.Error(), "outbox: "))
	}
	return text.String()
}

// Unwrap gives the cause.
func (e *MessageError) Unwrap() error { return e.Err }

// excerpt quotes a text from outside so that it fits into a line, whatever it contains.
func excerpt(s string) string {
	const limit = 64
	if len(s) > limit {
		return fmt.Sprintf("%q…", s[:limit])
	}
	return fmt.Sprintf("%q", s)
}
