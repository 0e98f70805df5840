package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

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

// nesting says in a context which databases it is inside an inbox of.
type nesting struct {
	database string
	outer    *nesting
}

type nestingKey struct{}

// enter checks the schema once, and gives the context of what is inside this inbox. Inside another one of the same database,
// however that is reached, it could wait for a row that the outer transaction has not committed.
func (i *Inbox) enter(ctx, own context.Context) (context.Context, error) {
	database, err := i.learn(ctx)
	if err != nil {
		return nil, err
	}
	outer, _ := own.Value(nestingKey{}).(*nesting)
	for n := outer; n != nil; n = n.outer {
		if n.database == database {
			return nil, ErrNestedInbox
		}
	}
	return context.WithValue(own, nestingKey{}, &nesting{database, outer}), nil
}

// learn checks the schema and asks which database it is in. Only a success is remembered. Messages that come at the same
// time may each ask: to wait for one another would be longer when the database is down.
func (i *Inbox) learn(ctx context.Context) (string, error) {
	if known := i.place.Load(); known != nil {
		return *known, nil
	}
	ctx, cancel := i.config.limited(ctx)
	defer cancel()
	if _, err := inspectSchemaAs(ctx, i.database, i.config.Schema, RoleConsumer); err != nil {
		return "", err
	}
	var database string
	err := i.database.query(ctx, i.sql.Database, nil, func(scan func(...any) error) error { return scan(&database) })
	if err == nil && database == "" {
		err = errors.New("no answer")
	}
	if err != nil {
		return "", fmt.Errorf("outbox: asking which database the inbox is in: %w", err)
	}
	i.place.Store(&database)
	return database, nil
}
