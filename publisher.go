package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// Publisher writes messages into the outbox, as part of the caller's transaction: they are forwarded if it commits, and
// were never there if it rolls back. It implements Watermill's message.Publisher.
//
// All messages of a call go in one statement, up to 64 MiB; beyond that in several, in their order, each of which
// commits for itself if there is no transaction. If a message is refused (see MessageError), none of its call is stored
// and the transaction stays usable. Publish executes no DDL.
//
// An empty UUID gets one, which is set on the message. A delay set with watermill/components/delay is honoured by the
// database's clock. Topics and keys may have 2,048 bytes, UUIDs 1 MiB, a message's metadata 16 MiB as JSON.
//
// Publish uses the first message's context: its values, and its end if it has not ended yet. pgx and its stdlib return
// when it ends, whatever the network does. lib/pq asks the server to cancel and waits for the answer: against a network
// that has gone silent give it a Dialer that sets TCP_USER_TIMEOUT.
//
// A Publisher is as safe for concurrent use as what it writes with. It is cheap: make one per transaction, or one for
// all with WithTx or NewContextPublisher.
type Publisher struct {
	config     PublisherConfig
	statements *pgsql.Statements
	logger     watermill.LoggerAdapter
	executor   executor // nil: the messages' contexts have it
	inContext  bool
	closed     *closing
}

var _ message.Publisher = (*Publisher)(nil)

var errNilExecutor = errors.New("outbox: the transaction is nil; pass an open one, or use NewContextPublisher")

// NewPublisher gives a Publisher that writes with tx. A nil logger logs nothing.
func NewPublisher(tx SQLExecutor, config PublisherConfig, logger watermill.LoggerAdapter) (*Publisher, error) {
	return newPublisher(sqlExecutor(tx), false, config, logger)
}

// NewPgxPublisher is NewPublisher for pgx.
func NewPgxPublisher(tx PgxExecutor, config PublisherConfig, logger watermill.LoggerAdapter) (*Publisher, error) {
	return newPublisher(pgxExecutor(tx), false, config, logger)
}

// NewContextPublisher gives a Publisher that finds the transaction in its messages' contexts, where ContextWithTx or
// ContextWithPgxTx has put it. So one cqrs.EventBus serves every transaction. All messages of a call must carry the
// same one, else it is ErrNoTransaction or ErrMixedTransactions.
func NewContextPublisher(config PublisherConfig, logger watermill.LoggerAdapter) (*Publisher, error) {
	return newPublisher(nil, true, config, logger)
}

func newPublisher(tx executor, inContext bool, config PublisherConfig, logger watermill.LoggerAdapter) (*Publisher, error) {
	var nothing error
	if tx == nil && !inContext {
		nothing = errNilExecutor
	}
	if err := errors.Join(nothing, config.Validate()); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	config = config.withDefaults()
	statements := pgsql.Render(config.Schema.names())
	return &Publisher{
		config: config, statements: &statements, logger: logger,
		executor: tx, inContext: inContext, closed: &closing{},
	}, nil
}

// WithTx gives a view of the Publisher that writes with tx. Closing the view leaves the Publisher open; the other way
// round it is closed too. A nil tx is an error of the view's Publish.
func (p *Publisher) WithTx(tx SQLExecutor) *Publisher { return p.view(sqlExecutor(tx)) }

// WithPgxTx is WithTx for pgx.
func (p *Publisher) WithPgxTx(tx PgxExecutor) *Publisher { return p.view(pgxExecutor(tx)) }

func (p *Publisher) view(tx executor) *Publisher {
	view := *p
	view.executor, view.inContext, view.closed = tx, false, &closing{parent: p.closed}
	return &view
}

// Close ends the Publisher: from now on Publish returns ErrClosed. What it wrote with stays open, for it is the caller's.
func (p *Publisher) Close() error {
	p.closed.flag.Store(true)
	return nil
}

// Publish writes the messages into the outbox. Without messages it does nothing.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	if p.closed.is() {
		return ErrClosed
	}
	if len(messages) == 0 {
		return nil
	}
	rows, err := p.config.prepare(topic, messages)
	if err != nil {
		return err
	}
	execute := p.executor
	if p.inContext {
		if execute, err = transactionOf(messages); err != nil {
			return err
		}
	}
	if execute == nil {
		return errNilExecutor
	}
	ctx, cancel := p.context(messages[0].Context())
	defer cancel()
	return p.write(ctx, execute, topic, messages, rows)
}

// write writes what prepare has checked.
func (p *Publisher) write(ctx context.Context, execute executor, topic string, messages []*message.Message, rows []row) error {
	for from := 0; from < len(messages); {
		to := chunkEnd(rows, from)
		if err := p.insert(ctx, execute, topic, messages[from:to], rows[from:to]); err != nil {
			return fmt.Errorf("outbox: writing messages %d to %d of %d into %s: %w", from, to-1, len(messages), p.config.Schema, err)
		}
		from = to
	}
	p.logger.Trace("Messages written to the outbox", watermill.LogFields{"topic": topic, "count": len(messages)})
	return nil
}

func (p *Publisher) insert(ctx context.Context, execute executor, topic string, messages []*message.Message, rows []row) error {
	var query string
	var args []any
	if len(messages) == 1 {
		query, args = p.statements.InsertOne, insertOneArgs(topic, messages[0], rows[0])
	} else {
		query, args = p.statements.Insert, insertArgs(topic, messages, rows)
	}
	written, err := execute(ctx, query, args...)
	if err != nil {
		if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) { // lib/pq tells only that the server has cancelled
			return fmt.Errorf("%w: %w", ended, err)
		}
		return err
	}
	if written >= 0 && written != int64(len(messages)) { // somebody's trigger or rule; their messages would be lost
		return fmt.Errorf("the database wrote %d rows, not %d; a trigger or rule on the table must not take rows away", written, len(messages))
	}
	return nil
}

// context gives the message's own, or if that has ended only its values.
func (p *Publisher) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	ctx = context.WithoutCancel(ctx)
	if p.config.Timeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.config.Timeout)
}

// chunkEnd is where the statement that begins with row from ends.
func chunkEnd(rows []row, from int) int {
	size := rows[from].size
	for i := from + 1; i < len(rows); i++ {
		if size += rows[i].size; size > chunkBytes {
			return i
		}
	}
	return len(rows)
}

// closing is a Publisher's end, which views share with what they are a view of.
type closing struct {
	flag   atomic.Bool
	parent *closing
}

func (c *closing) is() bool {
	for ; c != nil; c = c.parent {
		if c.flag.Load() {
			return true
		}
	}
	return false
}
