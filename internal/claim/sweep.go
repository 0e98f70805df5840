package claim

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// StuckKeys finds keys, by lane, whose first holding row is parked, and lets the book owe them a release.
func (s *Session) StuckKeys(ctx context.Context, b *Book, idle time.Duration) error {
	var found []struct {
		Lane int16
		Key  string
	}
	batch := &pgx.Batch{}
	batch.Queue(s.SQL.Begin)
	batch.Queue(s.SQL.Settings, milliseconds(idle))
	batch.Queue(s.SQL.StuckKeys).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			Lane int16
			Key  string
		}])
		return err
	})
	batch.Queue("COMMIT")
	if err := s.Conn.SendBatch(ctx, batch).Close(); err != nil {
		return errors.Join(err, s.Rollback(ctx))
	}
	for _, k := range found {
		b.Owe(View{}, k.Lane, nil, []string{k.Key})
	}
	return nil
}
