package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// inboxMemory is how long an Inbox remembers message ids by default.
const inboxMemory = 30 * 24 * time.Hour

// keysOfARelease is for how many keys the release is executed at once: as many as a claim has by default.
const keysOfARelease = 500

// errCommitUnknown says that the answer to COMMIT was lost.
var errCommitUnknown = errors.New("the connection was lost while committing; whether it was done is not known, List tells")

// move executes one of the statements that take letters away, under the locks of their lanes.
func (d *DeadLetters) move(ctx context.Context, doing, statement string, filter DeadLetterFilter) (int64, error) {
	if err := errors.Join(given(ctx, d.pool), filter.validateSelective()); err != nil {
		return 0, err
	}
	var moved, old int64
	err := d.transaction(ctx, pgx.ReadWrite, func(tx pgx.Tx) error {
		args := filter.args(math.MaxInt64)
		rows, err := tx.Query(ctx, d.sql.DeadLock, args...)
		if err != nil {
			return err
		}
		lanes, err := pgx.CollectRows(rows, pgx.RowTo[int16])
		if err != nil || len(lanes) == 0 {
			return err
		}
		var released []string
		args = append(args, lanes, inboxMemory.Seconds())
		if err := tx.QueryRow(ctx, statement, args...).Scan(&moved, &old, &released); err != nil {
			return err
		}
		for keys := range slices.Chunk(released, keysOfARelease) {
			// What comes out short, for a row that somebody has locked, is for the forwarders' sweep.
			if _, err := tx.Exec(ctx, d.sql.Release, keys); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("outbox: %s dead letters of %s: %w", doing, d.schema, withSchemaHint(err))
	}
	if old > 0 {
		d.logger.Info("Letters went back to the outbox that were published longer ago than an inbox remembers by default",
			watermill.LogFields{"letters": old, "published_before": inboxMemory.String(), "table": d.schema.String()})
	}
	return moved, nil
}

// transaction runs do in one that is never of the inherited kind: each statement needs a snapshot of its own. It is
// committed if it may write, do succeeds, and ctx is not done by then.
func (d *DeadLetters) transaction(ctx context.Context, access pgx.TxAccessMode, do func(tx pgx.Tx) error) error {
	tx, err := d.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: access})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // after a commit nothing; a connection that fails at it is not used again
	}()
	if _, err := tx.Exec(ctx, d.sql.DeadSettings); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	if access == pgx.ReadOnly {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return commit(ctx, tx)
}

// commit does not end with ctx, so that a caller that gives up knows what happened.
func commit(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
	defer cancel()
	err := tx.Commit(ctx)
	var answer *pgconn.PgError
	refused := errors.As(err, &answer) && answer.SeverityUnlocalized == "ERROR"
	if err == nil || refused || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	return fmt.Errorf("%w: %w", errCommitUnknown, err)
}
