package amqp

import (
	"errors"
	"slices"

	"github.com/rabbitmq/amqp091-go"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/reach"
)

// Codes of the server that are about one topic, and such that are about nobody's message.
var (
	permanentCodes = []int{amqp091.AccessRefused, amqp091.PreconditionFailed, amqp091.ContentTooLarge, amqp091.CommandInvalid}
	outageCodes    = []int{
		amqp091.ConnectionForced, amqp091.ChannelError, amqp091.ResourceError, amqp091.InternalError, amqp091.FrameError,
		amqp091.UnexpectedFrame,
	}
)

// Classify says what an error of the publisher means; see the package's documentation.
func (*opened) Classify(err error) outbox.FailureKind { return classify(err) }

func classify(err error) outbox.FailureKind {
	var connect *connectError
	var blocked *blockedError
	var answer *amqp091.Error
	switch {
	case err == nil:
		return outbox.FailureUnknown
	case outbox.IsPermanent(err):
		return outbox.FailurePermanent
	case errors.As(err, &connect), errors.As(err, &blocked), reach.Failed(err),
		isAny(err, outbox.ErrHeldBack, errRejected, errInterrupted, errUnexplained):
		return outbox.FailureOutage
	case errors.As(err, &answer) && slices.Contains(outageCodes, answer.Code):
		return outbox.FailureOutage
	case errors.As(err, &answer) && slices.Contains(permanentCodes, answer.Code):
		return outbox.FailurePermanent
	}
	return outbox.FailureUnknown
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
