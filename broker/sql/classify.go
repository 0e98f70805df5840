package sql

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// SQLSTATEs; see PostgreSQL's documentation, appendix A.
const (
	undefinedTable        = "42P01"
	insufficientPrivilege = "42501"
)

// classify says what an error of the publisher means.
func classify(err error) outbox.FailureKind {
	var (
		topic   *TopicError
		unknown *UnknownTopicError
		connect *pgconn.ConnectError
		network net.Error
	)
	switch {
	case errors.As(err, &topic), errors.As(err, &unknown):
		return outbox.FailurePermanent
	case errors.As(err, &connect), // whatever the server said: nobody gets in
		errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), pgconn.SafeToRetry(err),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, broker.ErrClosed):
		return outbox.FailureOutage
	}
	return classifyState(sqlState(err))
}

func classifyState(state string) outbox.FailureKind {
	if state == insufficientPrivilege {
		return outbox.FailurePermanent
	}
	if len(state) != 5 {
		return outbox.FailureUnknown
	}
	switch state[:2] {
	case "22", // data exception
		"54": // program limit exceeded
		return outbox.FailurePermanent
	case "08", // connection exception
		"25",             // a transaction that may not write, as on a standby
		"28",             // not authenticated
		"40",             // rolled back, for another's sake
		"53",             // insufficient resources
		"55",             // not in the state for it, such as locked
		"57", "58", "F0": // an operator, the system, a file of its own
		return outbox.FailureOutage
	}
	return outbox.FailureUnknown
}

// sqlState gives the code of the server's answer; "" if there is none.
func sqlState(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}
