package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/reach"
)

// refused says that a broker, or franz-go, looked at a batch and did not want it, so that one of its records may be to
// blame: they are sent again one by one. See the error codes of Kafka's protocol guide.
func refused(err error) bool { return final(err) || errors.Is(err, kerr.CorruptMessage) }

// final says that the refusal of a record that was alone is for good. Not so a corrupt message, which the wire may have
// made, nor an invalid timestamp: that is when it was sent, by the clock of this machine.
func final(err error) bool {
	for _, code := range []error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.PolicyViolation, kerr.UnsupportedForMessageFormat,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// classify says what an error of the publisher means.
func classify(err error) outbox.FailureKind {
	var (
		tooLarge *TooLargeError
		unknown  *UnknownTopicError
		code     *kerr.Error
	)
	switch {
	case errors.As(err, &tooLarge), final(err),
		errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.TopicAuthorizationFailed):
		return outbox.FailurePermanent
	case errors.As(err, &unknown):
		if unknown.For >= unknownAfter {
			return outbox.FailurePermanent
		}
		return outbox.FailureOfMessage
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return outbox.FailureUnknown
	case reach.Failed(err), errors.As(err, &code), errors.Is(err, errUnanswered),
		errors.Is(err, kgo.ErrClientClosed), errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries):
		return outbox.FailureOutage
	}
	return outbox.FailureUnknown
}
