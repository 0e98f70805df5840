package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// sqlInbox is an inbox's database for database/sql.
type sqlInbox struct {
	sqlTransactor
	config InboxConfig
	sql    pgsql.Statements
	asText bool
}

func newSQLInbox(db *sql.DB, config InboxConfig) sqlInbox {
	return sqlInbox{newSQLTransactor(db), config, pgsql.Render(config.Schema.names()), isLibPq(db.Driver())}
}

// isLibPq is not true of one that is wrapped, which costs a round trip.
func isLibPq(d driver.Driver) bool {
	t := reflect.TypeOf(d)
	if t == nil {
		return false
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == "github.com/lib/pq"
}

func (d sqlInbox) begin(ctx context.Context, place inboxPlace, id identity) (inboxTx, bool, error) {
	t := &sqlInboxTx{timeout: d.config.TxTimeout}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	var inserted int64
	err := t.limited(func() (err error) {
		if t.tx, err = d.db.BeginTx(t.ctx, d.config.TxOptions); err != nil {
			return err
		}
		if place.readOnly { // which database/sql has no option against
			if _, err := t.tx.ExecContext(t.ctx, "SET TRANSACTION READ WRITE"); err != nil {
				return err
			}
		}
		result, err := d.receive(t, id)
		if err != nil {
			return err
		}
		inserted, err = result.RowsAffected()
		return err
	})
	if err != nil {
		t.rollback(ctx)
		return nil, false, err
	}
	return t, inserted == 1, nil
}

func (d sqlInbox) receive(t *sqlInboxTx, id identity) (sql.Result, error) {
	if d.asText {
		return t.tx.ExecContext(t.ctx, d.sql.Receiving(id.consumer, id.handler, id.message))
	}
	return t.tx.ExecContext(t.ctx, d.sql.Receive, id.consumer, id.handler, id.message)
}

// sqlInboxTx has a context of its own, since database/sql rolls back when that of BeginTx ends.
type sqlInboxTx struct {
	tx      *sql.Tx
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timeout time.Duration
}

func (t *sqlInboxTx) carry(ctx context.Context) context.Context { return ContextWithTx(ctx, t.tx) }

func (t *sqlInboxTx) execute(ctx context.Context, query string, args ...any) (int64, error) {
	written, err := sqlExecutor(t.tx)(ctx, query, args...)
	if errors.Is(err, sql.ErrTxDone) && t.ctx.Err() == nil {
		return written, errEndedByHandler
	}
	return written, err
}

func (t *sqlInboxTx) commit(context.Context) error {
	defer t.cancel(nil)
	err := t.limited(t.tx.Commit)
	if errors.Is(err, sql.ErrTxDone) && t.ctx.Err() == nil {
		return errEndedByHandler
	}
	return err
}

func (t *sqlInboxTx) rollback(context.Context) {
	defer t.cancel(nil)
	if t.tx != nil {
		_ = t.limited(t.tx.Rollback)
	}
}

// limited ends the transaction if a step takes too long.
func (t *sqlInboxTx) limited(step func() error) error {
	if t.timeout >= 0 {
		timer := time.AfterFunc(t.timeout, func() { t.cancel(context.DeadlineExceeded) })
		defer timer.Stop()
	}
	err := step()
	if cause := context.Cause(t.ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
