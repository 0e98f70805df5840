package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNotCommitted says that the server rolled a settlement back. Nothing of it happened; what the broker acknowledged
// will be published again.
var ErrNotCommitted = errors.New("outbox: the server rolled the settlement back")

// Report tells what a settlement met that it did not expect.
type Report struct {
	Gone int // acknowledged rows that were not there any more: somebody deleted them by hand
}

// Settle writes a settlement and commits, in one round trip, and then lets the book remember what the claim proved.
// Nothing is remembered unless the server reports the commit.
func (s *Session) Settle(ctx context.Context, c *Claimed, st *Settlement, b *Book, v View) (Report, error) {
	for _, lane := range c.Lanes { // releases that came out short before
		for _, key := range v.Owed[lane] {
			if !slices.Contains(st.Release[lane], key) && !slices.Contains(st.ReparkKeys, key) { // else it is owed on
				st.Release[lane] = append(st.Release[lane], key)
			}
		}
	}
	var keys []string
	lanes := map[string]int16{}
	for lane, released := range st.Release {
		for _, key := range released {
			keys = append(keys, key)
			lanes[key] = lane
		}
	}

	var report Report
	var short []string
	whole := true
	var tag pgconn.CommandTag
	batch := &pgx.Batch{}
	counted := func(sql string, want int, args ...any) {
		if want > 0 {
			batch.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
				whole = whole && tag.RowsAffected() == int64(want)
				return nil
			})
		}
	}
	if len(st.Done) > 0 {
		batch.Queue(s.SQL.Delete, st.Done).Exec(func(tag pgconn.CommandTag) error {
			report.Gone = len(st.Done) - int(tag.RowsAffected())
			return nil
		})
	}
	risky := len(st.Retry)+len(st.Bury) > 0
	if risky {
		batch.Queue("SAVEPOINT acknowledged")
	}
	counted(s.SQL.Retry, len(st.Retry), st.Retry, st.RetryDelay, st.RetryError)
	counted(s.SQL.Park, len(st.Park), st.Park)
	counted(s.SQL.Bury, len(st.Bury), st.Bury, st.BuryError, st.BuryCharged, st.BuryHolds, st.BuryTail)
	if len(st.ReparkKeys) > 0 {
		batch.Queue(s.SQL.Repark, st.ReparkKeys, st.ReparkAfter)
	}
	if len(keys) > 0 {
		batch.Queue(s.SQL.Release, keys).Query(func(rows pgx.Rows) (err error) {
			short, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	}
	if len(c.Rows) == 0 && b.Lagging(c.Facts.Drawn) {
		batch.Queue(s.SQL.AssignXid).QueryRow(func(row pgx.Row) error {
			var own string
			if err := row.Scan(&own); err != nil {
				return err
			}
			_, err := fmt.Sscan(own, &c.Facts.Own)
			return err
		})
	}
	batch.Queue("COMMIT").Exec(func(t pgconn.CommandTag) error { tag = t; return nil })
	if err := s.Conn.SendBatch(ctx, batch).Close(); err != nil {
		if risky && s.Conn.PgConn().TxStatus() == 'E' && s.keepAcknowledged(ctx) {
			for lane, released := range st.Release {
				b.Owe(v, lane, nil, released)
			}
		}
		return report, errors.Join(err, s.Rollback(ctx))
	}
	if tag.String() != "COMMIT" {
		return report, ErrNotCommitted
	}
	for lane, released := range st.Release {
		b.Owe(v, lane, released, slices.DeleteFunc(slices.Clone(short), func(key string) bool { return lanes[key] != lane }))
	}
	if whole && c.exact {
		c.Facts.Lanes = st.Lanes
		b.Remember(v, c.Facts, time.Now())
	}
	return report, nil
}

// keepAcknowledged commits the acknowledged rows of a settlement of which the server refused the rest: an odd row that
// can't be stored as failed must not make its neighbours be sent again for ever. It says whether that worked.
func (s *Session) keepAcknowledged(ctx context.Context) bool {
	if _, err := s.Conn.Exec(ctx, "ROLLBACK TO SAVEPOINT acknowledged"); err != nil {
		return false
	}
	tag, err := s.Conn.Exec(ctx, "COMMIT")
	return err == nil && tag.String() == "COMMIT"
}
