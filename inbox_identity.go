package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
)

// identity is what a message is known again by. The handler's name is always part of it: with the consumer's alone, one
// handler would swallow another's messages.
type identity struct{ consumer, handler, message string }

// identify refuses what could not be known again, before any SQL.
func (i *Inbox) identify(msg *message.Message) (identity, error) {
	select {
	case <-msg.Acked():
		return identity{}, ErrAlreadyAcked
	default:
	}
	id := identity{consumer: i.config.Consumer, handler: message.HandlerNameFromCtx(msg.Context())}
	if id.consumer == "" && id.handler == "" {
		return identity{}, ErrNoConsumer
	}
	if reason := sizedProblem(id.handler, maxConsumerBytes); reason != "" {
		return identity{}, &MessageError{UUID: msg.UUID, Field: "handler", Reason: excerpt(id.handler) + " " + reason}
	}
	text, err := i.config.MessageID(msg)
	switch {
	case err != nil:
		return identity{}, &MessageError{UUID: msg.UUID, Field: "id", Reason: "InboxConfig.MessageID found none", Err: err}
	case text == "":
		return identity{}, ErrNoMessageID
	}
	if reason := textProblem(text); reason != "" {
		return identity{}, &MessageError{UUID: msg.UUID, Field: "id", Reason: reason}
	}
	if len(text) > maxMessageIDBytes {
		sum := sha256.Sum256([]byte(text))
		text = "sha256:" + hex.EncodeToString(sum[:])
	}
	id.message = text
	return id, nil
}

// inboxPlace is what an inbox learns of its database with its first message.
type inboxPlace struct {
	database string
	readOnly bool // what transactions are by default
}

// isReadOnly says that a transaction was read only, SQLSTATE read_only_sql_transaction.
func isReadOnly(err error) bool {
	return sqlState(err) == "25006"
}

// nesting says in a context which databases it is inside an inbox of. A context may outlive its transaction, as it does
// when a message takes it along.
type nesting struct {
	database string
	outer    *nesting
	ended    atomic.Bool
}

type nestingKey struct{}

// enter says what is inside this inbox. Inside another one of the same database, however that is reached, it could wait for
// a row that the outer transaction has not committed.
func enter(own context.Context, database string) (*nesting, error) {
	outer, _ := own.Value(nestingKey{}).(*nesting)
	for n := outer; n != nil; n = n.outer {
		if n.database == database && !n.ended.Load() {
			return nil, ErrNestedInbox
		}
	}
	return &nesting{database: database, outer: outer}, nil
}

// learn checks the schema and asks which database it is in. Only a success is remembered. Messages that come at the same
// time may each ask: to wait for one another would be longer when the database is down.
func (i *Inbox) learn(ctx context.Context) (*inboxPlace, error) {
	if known := i.place.Load(); known != nil {
		return known, nil
	}
	ctx, cancel := i.config.limited(ctx)
	defer cancel()
	if _, err := inspectSchemaAs(ctx, i.database, i.config.Schema, RoleConsumer); err != nil {
		return nil, err
	}
	place := &inboxPlace{}
	err := i.database.query(ctx, i.sql.Database, nil, func(scan func(...any) error) error {
		return scan(&place.database, &place.readOnly)
	})
	if err == nil && place.database == "" {
		err = errors.New("no answer")
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: asking which database the inbox is in: %w", err)
	}
	i.place.Store(place)
	return place, nil
}
