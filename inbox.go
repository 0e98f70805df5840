package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// Inbox makes a handler's effects happen once, however often its message comes. It records the message, runs the handler
// and writes what the handler returns into the outbox, in one transaction: all of it commits, or nothing. A copy that
// comes later is acknowledged and not handled; one that comes meanwhile waits for the first.
//
// The effects are what the handler does with the transaction that it finds by TxFromContext or PgxTxFromContext. It must
// leave ending it to the inbox: with database/sql that can't always notice a COMMIT or ROLLBACK as SQL. Nothing else can
// be undone when a message fails: what calls another service, do there by a message that you return. Messages that a
// handler returns go to its publish topic, by way of the outbox: the router and its publisher decorators don't see them.
//
// Of Watermill's middlewares these go before it, in this order: PoisonQueue, Retry (with ResetContextOnRetry), Timeout,
// Recoverer. Those that decorate the messages that a handler returns go after it, CorrelationID among them. Inside the
// inbox, Retry would commit the effects of failed tries and PoisonQueue would record what it poisoned as done. With
// InstantAck, IgnoreErrors, Deduplicator, or a cqrs processor's AckCommandHandlingErrors, messages are lost, whatever the
// inbox does.
//
// An Inbox is safe for concurrent use: one serves all of a router's handlers.
type Inbox struct {
	config    InboxConfig
	sql       pgsql.Statements
	database  inboxDatabase
	publisher *Publisher
	logger    watermill.LoggerAdapter
	place     atomic.Pointer[inboxPlace] // nil until the first message has asked
	pruning   pruning
}

// NewInbox makes an inbox on database/sql: handlers find a *sql.Tx. It does no I/O; all problems of the config are reported
// at once. A nil logger logs nothing. The caller keeps db; one connection is enough, more let more messages be handled at
// a time. A handler that asks db for a second one, beside its transaction, may wait for other handlers that do.
//
// The first message checks the schema as CheckSchema does, for what RoleConsumer needs.
func NewInbox(db *sql.DB, config InboxConfig, logger watermill.LoggerAdapter) (*Inbox, error) {
	if db == nil {
		return nil, errors.Join(errNilDB, config.Validate())
	}
	return newInbox(func(c InboxConfig) inboxDatabase { return newSQLInbox(db, c) }, config, logger)
}

// NewPgxInbox is NewInbox on pgx: handlers find a pgx.Tx. It is faster, since one round trip begins and records.
func NewPgxInbox(pool *pgxpool.Pool, config InboxConfig, logger watermill.LoggerAdapter) (*Inbox, error) {
	if pool == nil {
		return nil, errors.Join(errNilPool, config.Validate())
	}
	return newInbox(func(c InboxConfig) inboxDatabase { return newPgxInbox(pool, c) }, config, logger)
}

func newInbox(on func(InboxConfig) inboxDatabase, config InboxConfig, logger watermill.LoggerAdapter) (*Inbox, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	publisher, err := newPublisher(nil, true, config.Publisher, logger)
	if err != nil {
		return nil, err
	}
	return &Inbox{config: config, sql: pgsql.Render(config.Schema.names()), database: on(config), publisher: publisher, logger: logger}, nil
}

// Middleware wraps a handler. It is a message.HandlerMiddleware.
func (i *Inbox) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		return nil, i.receive(msg, h) // what the handler returned is in the outbox
	}
}

func (i *Inbox) receive(msg *message.Message, h message.HandlerFunc) error {
	id, err := i.identify(msg)
	if err != nil {
		return err
	}
	// Neither the subscriber's end nor a timeout may tear the transaction apart; the handler still sees both.
	own := msg.Context()
	ctx := context.WithoutCancel(own)
	place, err := i.learn(ctx)
	if err != nil {
		return err
	}
	inside, err := enter(own, place.database)
	if err != nil {
		return err
	}
	defer inside.ended.Store(true)

	tx, first, err := i.database.begin(ctx, *place, id)
	if err != nil {
		if isReadOnly(err) {
			i.place.CompareAndSwap(place, nil) // the default has changed
		}
		return i.failed("recording", id, err)
	}
	defer tx.rollback(ctx) // a panic keeps its stack; after a commit this does nothing
	if !first {
		tx.rollback(ctx) // now, so that OnDuplicate finds a connection
		i.skip(msg, id)
		return nil
	}
	produced, err := i.handle(tx.carry(context.WithValue(own, nestingKey{}, inside)), msg, h)
	if err != nil {
		return err
	}
	if err := i.capture(ctx, own, tx, msg, produced); err != nil {
		return i.failed("writing what the handler returned for", id, err)
	}
	if err := tx.commit(ctx); err != nil {
		return i.failed("committing the effects of", id, err)
	}
	i.pruneNowAndThen(ctx)
	return nil
}

// failed says what a step of the inbox was, and which setting it ran into.
func (i *Inbox) failed(doing string, id identity, err error) error {
	limit := ""
	var refused *MessageError // by what may have a deadline of its own
	if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &refused) && i.config.TxTimeout > 0 {
		limit = fmt.Sprintf(" took longer than InboxConfig.TxTimeout, %v", i.config.TxTimeout)
	}
	return fmt.Errorf("outbox: %s message %s%s: %w", doing, excerpt(id.message), limit, err)
}

// handle gives the message its context back on every exit: what is left in it would be the next middleware's.
func (i *Inbox) handle(ctx context.Context, msg *message.Message, h message.HandlerFunc) ([]*message.Message, error) {
	own := msg.Context()
	defer msg.SetContext(own)
	msg.SetContext(ctx)
	return h(msg)
}

func (i *Inbox) skip(msg *message.Message, id identity) {
	i.logger.Debug("Message skipped, the inbox has it", watermill.LogFields{
		"message_uuid": msg.UUID, "message_id": id.message, "consumer": id.consumer, "handler": id.handler,
	})
	if i.config.OnDuplicate != nil {
		i.config.OnDuplicate(msg)
	}
}
