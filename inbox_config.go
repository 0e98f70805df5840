package outbox

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

const (
	defaultTxTimeout = 10 * time.Second
	defaultRetention = 30 * 24 * time.Hour
	// An entry of the inbox's index takes 2,704 bytes; longer names are refused, longer ids shortened to their hash.
	maxConsumerBytes  = 512
	maxMessageIDBytes = 1024
)

// InboxConfig configures an Inbox. The zero value is right for a router's handlers.
type InboxConfig struct {
	// Schema names the tables. Defaults to public.outbox, whose inbox is public.outbox_inbox.
	Schema Schema

	// Consumer names the service. A message is handled once per consumer, handler and message id: set it when several
	// services share one database, and when the inbox is used without a router. Copies of one service must have the same.
	// What one had recorded that there is no inbox for any more stays: delete it by hand. It and the handlers' names have
	// at most 512 bytes each. Defaults to "", which is enough where handlers' names differ.
	Consumer string

	// MessageID gives the id that a message is known again by. Set it when producers send none, or a new one with each
	// copy. An error, or "", refuses the message. Defaults to the message's UUID.
	MessageID func(msg *message.Message) (string, error)

	// Publisher configures how the messages that a handler returns are written into the outbox. Its Schema defaults to
	// the one above.
	Publisher PublisherConfig

	// PublishTopic takes the messages of handlers that the router knows no topic for, as those of AddConsumerHandler.
	// Defaults to none.
	PublishTopic string

	// TxOptions choose the isolation level: read committed, repeatable read or serializable. Under the last two a copy
	// of a message that comes while the first is handled may fail with SQLSTATE 40001, and has to come again. ReadOnly is
	// refused. Defaults to read committed, whatever the database's default is.
	TxOptions *sql.TxOptions

	// TxTimeout bounds each step that the inbox makes itself: to get a connection, begin and record the message, which
	// waits for a copy that is being handled; to write what the handler returned; to commit. It does not bound the
	// handler, which Watermill's Timeout middleware does. lib/pq asks the server to cancel and waits for the answer:
	// against a network that has gone silent give it a Dialer that sets TCP_USER_TIMEOUT. Defaults to 10 s; -1 means
	// none.
	TxTimeout time.Duration

	// Retention is how long a message is known again. It must be longer than the broker, or anyone, may take to send a
	// copy: a replay of what is older takes effect again. Of inboxes with one Consumer the shortest counts for all.
	// Defaults to 30 days; -1 keeps all.
	Retention time.Duration

	// OnDuplicate is called for each copy that is skipped, before it is acknowledged and when its transaction has ended.
	// It must be safe for concurrent use.
	// Defaults to none.
	OnDuplicate func(msg *message.Message)
}

// Validate reports everything wrong with the configuration, each problem with its field. NewInbox calls it.
func (c InboxConfig) Validate() error {
	problems := []error{c.Schema.Validate()}
	refuse := func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf("outbox: InboxConfig."+field+": "+format, args...))
	}
	if reason := sizedProblem(c.Consumer, maxConsumerBytes); reason != "" {
		refuse("Consumer", "%s %s", excerpt(c.Consumer), reason)
	}
	if err := c.Publisher.Validate(); err != nil {
		refuse("Publisher", "%w", err)
	}
	if reason := indexedProblem(c.PublishTopic); reason != "" {
		refuse("PublishTopic", "%s %s", excerpt(c.PublishTopic), reason)
	}
	if c.TxOptions != nil {
		if c.TxOptions.ReadOnly {
			refuse("TxOptions", "ReadOnly is set, but the inbox must write")
		}
		if _, ok := isolationLevels[c.TxOptions.Isolation]; !ok {
			refuse("TxOptions", "the isolation level %s is none of Default, Read Committed, Repeatable Read and Serializable", c.TxOptions.Isolation)
		}
	}
	if c.TxTimeout < -1 {
		refuse("TxTimeout", "%v is negative; 0 is the default, -1 none", c.TxTimeout)
	}
	if c.Retention < -1 {
		refuse("Retention", "%v is negative; 0 is the default, -1 keeps all", c.Retention)
	}
	return errors.Join(problems...)
}

func (c InboxConfig) withDefaults() InboxConfig {
	c.Schema = c.Schema.withDefaults()
	if c.MessageID == nil {
		c.MessageID = func(msg *message.Message) (string, error) { return msg.UUID, nil }
	}
	if c.Publisher.Schema == (Schema{}) {
		c.Publisher.Schema = c.Schema
	}
	if c.TxOptions == nil || c.TxOptions.Isolation == sql.LevelDefault {
		c.TxOptions = &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	if c.TxTimeout == 0 {
		c.TxTimeout = defaultTxTimeout
	}
	if c.Retention == 0 {
		c.Retention = defaultRetention
	}
	return c
}
