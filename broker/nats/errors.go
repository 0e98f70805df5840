package nats

import (
	"fmt"
	"time"
)

// NotConnectedError says that there is no connection now.
type NotConnectedError struct {
	// Err is why: what the last try to connect has met.
	Err error
}

// Error gives the reason.
func (e *NotConnectedError) Error() string { return fmt.Sprintf("nats: not connected: %s", e.Err) }

// Unwrap gives the reason.
func (e *NotConnectedError) Unwrap() error { return e.Err }

// InvalidTopicError says that a topic can't be a subject.
type InvalidTopicError struct{ Topic, Reason string }

// Error gives the reason.
func (e *InvalidTopicError) Error() string {
	return fmt.Sprintf("nats: topic %.300q can't be a subject: %s", e.Topic, e.Reason)
}

// UnknownTopicError says that no stream has a topic among its subjects, and that none must be created.
type UnknownTopicError struct {
	Topic string
	// For is how long it has been looked for in vain.
	For time.Duration
}

// Error tells what to do.
func (e *UnknownTopicError) Error() string {
	return fmt.Sprintf("nats: no stream has the subject %q, and auto_provision is off; create one", e.Topic)
}

// TooLargeError says that a message is larger than the server takes. It was not sent.
type TooLargeError struct {
	Topic string
	// Bytes is the size of the message with its headers; Limit is the server's max_payload.
	Bytes, Limit int64
}

// Error gives both figures.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("nats: the message for %q has %d bytes with its headers, the server takes %d (max_payload)", e.Topic, e.Bytes, e.Limit)
}

// PermissionError says that the server's configuration does not let the user publish to a subject, be it a topic or one of
// JetStream's own.
type PermissionError struct {
	Subject string
	// Err is what the server said.
	Err error
}

// Error gives the subject.
func (e *PermissionError) Error() string {
	return fmt.Sprintf("nats: the user is not permitted to publish to %q", e.Subject)
}

// Unwrap gives what the server said.
func (e *PermissionError) Unwrap() error { return e.Err }

// GroupError says that a consumer of this name is there already, but for another topic.
type GroupError struct{ Group, Topic, Stream, Consumer string }

// Error names it.
func (e *GroupError) Error() string {
	return fmt.Sprintf("nats: consumer %q of stream %q, which group %q would use for %q, has another filter; choose another group",
		e.Consumer, e.Stream, e.Group, e.Topic)
}
