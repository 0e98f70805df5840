package sql

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/reach"
)

// SQLSTATEs, and classes of them; see PostgreSQL's appendix A.
const (
	undefinedTable        = "42P01"
	insufficientPrivilege = "42501"
	readOnlyTransaction   = "25006"
	dataException         = "22"
	limitExceeded         = "54"
	transactionRollback   = "40"
)

// outageClasses are connection_exception, invalid_authorization, invalid_catalog_name, transaction_rollback,
// insufficient_resources, object_not_in_prerequisite_state (locked), operator_intervention, and system_error.
var outageClasses = []string{"08", "28", "3D", transactionRollback, "53", "55", "57", "58"}

// sqlState gives the code of the server's answer, "" if there was none.
func sqlState(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// class gives the class of a code.
func class(code string) string { return code[:min(2, len(code))] }

// classify says what an error of the publisher means.
func (b *database) classify(err error) outbox.FailureKind {
	var (
		topic    *InvalidTopicError
		metadata *InvalidMetadataError
	)
	switch code := sqlState(err); {
	case isOutage(err):
		return outbox.FailureOutage
	case errors.As(err, &topic), errors.As(err, &metadata), class(code) == dataException, class(code) == limitExceeded,
		code == insufficientPrivilege, code == undefinedTable && !b.settings.createTopics:
		return outbox.FailurePermanent
	}
	return outbox.FailureUnknown
}

// isOutage says that no message is at fault.
func isOutage(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) { // whatever the server said: nobody gets in
		return true
	}
	if code := sqlState(err); code != "" {
		return code == readOnlyTransaction || slices.Contains(outageClasses, class(code))
	}
	// pgx's own word for a connection that it found closed is only to be told by SafeToRetry.
	return reach.Failed(err) || pgconn.SafeToRetry(err)
}
