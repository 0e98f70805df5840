package nats

import (
	"errors"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/reach"
)

// codeHeadersTooLarge is JSStreamHeaderExceedsMaximumErr of nats-server's errors.json, which the client does not name: all
// headers of a message may have 64 KiB.
const codeHeadersTooLarge jetstream.ErrorCode = 10097

// refused says that the server does not let us in.
func refused(err error) bool {
	return is(err, client.ErrAuthorization, client.ErrAuthExpired, client.ErrAuthRevoked, client.ErrAccountAuthExpired)
}

// classify says what an error of the publisher means.
func classify(err error) outbox.FailureKind {
	var (
		unknown *UnknownTopicError
		api     *jetstream.APIError
		without *NotConnectedError
	)
	switch {
	case ofMessage(err):
		return outbox.FailurePermanent
	case errors.As(err, &unknown):
		if unknown.For >= unknownAfter {
			return outbox.FailurePermanent
		}
		return outbox.FailureOfMessage
	case errors.As(err, &api):
		if api.Code >= 500 || api.Code == 429 { // full, or no leader, or overloaded: an operator's task, or a matter of time
			return outbox.FailureOutage
		}
		return outbox.FailureUnknown
	case errors.As(err, &without), reach.Failed(err), refused(err),
		is(err, client.ErrConnectionClosed, client.ErrConnectionDraining, client.ErrConnectionReconnecting, client.ErrDisconnected,
			client.ErrNoServers, client.ErrNoResponders, client.ErrTimeout, client.ErrStaleConnection, client.ErrReconnectBufExceeded,
			client.ErrMaxConnectionsExceeded, client.ErrMaxAccountConnectionsExceeded,
			jetstream.ErrAsyncPublishTimeout, jetstream.ErrTooManyStalledMsgs):
		return outbox.FailureOutage
	}
	return outbox.FailureUnknown
}

// ofMessage says that no other try can have another end.
func ofMessage(err error) bool {
	var (
		tooLarge *TooLargeError
		invalid  *InvalidTopicError
		denied   *PermissionError
		api      *jetstream.APIError
	)
	return errors.As(err, &tooLarge) || errors.As(err, &invalid) || errors.As(err, &denied) ||
		is(err, client.ErrMaxPayload, client.ErrBadSubject) ||
		errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum || api.ErrorCode == codeHeadersTooLarge)
}

func is(err error, ones ...error) bool {
	for _, one := range ones {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
