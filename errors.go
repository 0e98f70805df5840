package outbox

import "errors"

// Errors to compare with errors.Is.
var (
	// ErrClosed is returned by a Publisher or Forwarder after its Close.
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
	// ErrNoConsumer is returned by an Inbox whose Consumer is empty when the message comes from no router, so that there is
	// no handler's name either.
	ErrNoConsumer = errors.New("outbox: the inbox does not know who consumes; set InboxConfig.Consumer, or use it in a router")
	// ErrNoMessageID is returned by an Inbox for a message without an id: recorded without one, all such messages would be
	// copies of the first.
	ErrNoMessageID = errors.New("outbox: the message has no id to know it again by; set InboxConfig.MessageID to find one")
	// ErrNestedInbox is returned by an Inbox inside another one of the same database, which would wait for itself.
	ErrNestedInbox = errors.New("outbox: an inbox inside an inbox of the same database; take one of them away")
	// ErrAlreadyAcked is returned by an Inbox for a message that was acknowledged before it was handled: the broker would
	// not send it again if it failed now.
	ErrAlreadyAcked = errors.New("outbox: the message was acknowledged before the inbox; nothing may do that, as middleware.InstantAck does")
	// ErrNoPublishTopic is returned by an Inbox when a handler returns messages and nothing says where to.
	ErrNoPublishTopic = errors.New("outbox: no topic for the handler's messages; set InboxConfig.PublishTopic, or use Router.AddHandler")
)
