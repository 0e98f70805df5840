package redis

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/reach"
)

// The first words of a server's errors: see redis/src/server.c, createSharedObjects.
var (
	permanentCodes = []string{"WRONGTYPE", "NOPERM"}
	outageCodes    = []string{
		"LOADING", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "NOAUTH", "WRONGPASS", "MASTERDOWN", "BUSY", "UNBLOCKED",
		"CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
	}
)

// Classify says what an error of the publisher means; see the package's documentation.
func (*opened) Classify(err error) outbox.FailureKind { return classify(err) }

func classify(err error) outbox.FailureKind {
	var answer redis.Error
	switch {
	case err == nil:
		return outbox.FailureUnknown
	case outbox.IsPermanent(err):
		return outbox.FailurePermanent
	case reach.Failed(err),
		isAny(err, outbox.ErrHeldBack, errReplicas, errNoAnswer, redis.ErrClosed, redis.ErrPoolExhausted, redis.ErrPoolTimeout):
		return outbox.FailureOutage
	case errors.As(err, &answer):
		return classifyAnswer(answer.Error())
	}
	return outbox.FailureUnknown
}

func classifyAnswer(text string) outbox.FailureKind {
	code, _, _ := strings.Cut(text, " ")
	switch {
	case slices.Contains(permanentCodes, code):
		return outbox.FailurePermanent
	case slices.Contains(outageCodes, code), strings.HasPrefix(text, "ERR max number of clients"):
		return outbox.FailureOutage
	}
	return outbox.FailureUnknown
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
