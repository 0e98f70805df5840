package outbox

import "errors"

// Errors to compare with errors.Is.
var (
	// ErrClosed is returned by a Publisher, Forwarder or Inbox after its Close.
	ErrClosed = errors.New("outbox: closed")
	// ErrAlreadyRunning is returned by the second Run of one Forwarder.
	ErrAlreadyRunning = errors.New("outbox: the forwarder is already running")
	// ErrSchemaVersion says that the tables are missing, older or newer than this library, or such that it can't work
	// with them: see CheckSchema. The text names each problem and what to do about it.
	ErrSchemaVersion = errors.New("outbox: the schema does not fit this library")
	// ErrNoTransaction is returned by a context publisher when the message's context carries no transaction.
	ErrNoTransaction = errors.New("outbox: no transaction in the message's context; put one there with ContextWithTx or ContextWithPgxTx")
	// ErrCloseTimeout is returned by Run and Close when publishes in flight outlived CloseTimeout. What was acknowledged
	// until then is settled; the rest is published again by the next forwarder.
	ErrCloseTimeout = errors.New("outbox: publishes in flight outlived the close timeout")
)
