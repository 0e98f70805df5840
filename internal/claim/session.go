package claim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// ErrIncarnation says that the floors of a view belong to another server or another life of the sequence. The claim was
// rolled back; forget the book and claim again.
var ErrIncarnation = errors.New("outbox: the server or the outbox's sequence is not the one it was")

// Session claims and settles on one connection, one claim at a time.
type Session struct {
	Conn *pgx.Conn
	SQL  *pgsql.Statements
}

// Limits bound one claim.
type Limits struct {
	Rows      int           // in all lanes together, and for each kind of scan
	Bytes     int64         // of payload and metadata
	Oversized bool          // one larger row may come along
	Lanes     int           // at most
	Idle      time.Duration // after which the server ends a claim whose process hangs
	Bell      bool          // read the doorbell on the way
}

// Claimed are the rows of one claim. Its transaction is open until Settle or Rollback.
type Claimed struct {
	Rows    []Row
	Allowed int     // row limit of a lane and scan
	Lanes   []int16 // locked
	Busy    int     // lanes that had something to do, locked or not
	Bell    bool    // some forwarder wants to be woken
	Facts   Facts

	exact bool // nothing disturbed the reasoning behind Facts
}

// Oversized says whether a row was left because it alone is above the byte limit.
func (c *Claimed) Oversized(bytes int64) bool {
	for i := range c.Rows {
		if c.Rows[i].Locked && c.Rows[i].Size > bytes {
			return true
		}
	}
	return false
}

// Claim locks lanes and rows in one round trip. After an error no transaction is open, unless the connection is lost.
func (s *Session) Claim(ctx context.Context, v View, limits Limits) (*Claimed, error) {
	lanes, xids, lows, highs := v.columns()
	owing := make([]int16, 0, len(v.Owed))
	for lane := range v.Owed {
		owing = append(owing, lane)
	}
	batch := &pgx.Batch{}
	batch.Queue(s.SQL.Begin)
	batch.Queue(s.SQL.Settings, milliseconds(limits.Idle))
	if limits.Bell {
		batch.Queue(s.SQL.ReadBell)
	}
	batch.Queue(s.SQL.ChooseLanes, v.Lanes, v.Floors, limits.Lanes, owing, lanes, xids, lows, highs, v.Hints)
	batch.Queue(s.SQL.Claim, v.Lanes, v.Floors, limits.Rows, limits.Bytes, limits.Oversized, lanes, xids, lows)
	c, err := readClaim(s.Conn.SendBatch(ctx, batch), limits.Bell)
	if err == nil && v.Incarnation != "" && v.Incarnation != c.Facts.Incarnation {
		err = ErrIncarnation
	}
	if err != nil {
		return nil, errors.Join(err, s.Rollback(ctx))
	}
	return c, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func readClaim(results pgx.BatchResults, bell bool) (*Claimed, error) {
	c := &Claimed{}
	err := func() error {
		for range 2 { // Begin and Settings
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		if bell {
			if err := results.QueryRow().Scan(&c.Bell); err != nil {
				return err
			}
		}
		var text, snapshot string
		if err := results.QueryRow().Scan(&text, &c.Lanes, &c.Facts.Empty, &c.Busy, &snapshot, &c.Facts.Drawn, &c.exact, &c.Facts.Incarnation); err != nil {
			return err
		}
		var err error
		if c.Facts.Probe, err = ParseSnapshot(snapshot); err != nil {
			return err
		}
		rows, err := results.Query()
		if err != nil {
			return err
		}
		return c.readRows(rows)
	}()
	return c, errors.Join(err, results.Close())
}

func (c *Claimed) readRows(rows pgx.Rows) error {
	defer rows.Close()
	var r Row
	var xid, key, topic, uuid, snapshot, own pgtype.Text
	var id, size pgtype.Int8
	var lane pgtype.Int2
	var holds, fits, locked, quarantined pgtype.Bool
	var attempts, allowed pgtype.Int4
	for rows.Next() {
		r = Row{}
		if err := rows.Scan(&r.Kind, &r.TID, &xid, &id, &lane, &key, &holds, &size, &fits, &locked, &r.Heads, &quarantined,
			&topic, &uuid, &r.Payload, &r.Metadata, &attempts, &snapshot, &own, &allowed); err != nil {
			return err
		}
		if r.Kind < 0 {
			if err := c.readHeader(snapshot.String, own.String); err != nil {
				return err
			}
			c.Allowed = int(allowed.Int32)
			c.Rows = make([]Row, 0, c.Allowed*len(c.Lanes))
			continue
		}
		if xid.Valid {
			var err error
			if r.Xid, err = strconv.ParseUint(xid.String, 10, 64); err != nil {
				return fmt.Errorf("outbox: txid %q of row %d: %w", xid.String, id.Int64, err)
			}
		}
		r.ID, r.Lane, r.Key, r.Holds, r.Size = id.Int64, lane.Int16, key.String, holds.Bool, size.Int64
		r.Locked, r.Quarantined = locked.Bool || !fits.Bool, quarantined.Bool
		r.Topic, r.UUID, r.Attempts = topic.String, uuid.String, int(attempts.Int32)
		c.Rows = append(c.Rows, r)
	}
	return rows.Err()
}

func (c *Claimed) readHeader(snapshot, own string) (err error) {
	if c.Facts.Claim, err = ParseSnapshot(snapshot); err != nil {
		return err
	}
	c.Facts.Own, err = strconv.ParseUint(own, 10, 64)
	return err
}

// columns turns the ranges into what unnest takes.
func (v View) columns() (lanes []int16, xids []string, lows, highs []int64) {
	n := len(v.Late)
	lanes, xids, lows, highs = make([]int16, 0, n), make([]string, 0, n), make([]int64, 0, n), make([]int64, 0, n)
	for _, r := range v.Late {
		lanes = append(lanes, r.Lane)
		xids = append(xids, strconv.FormatUint(r.Xid, 10))
		lows, highs = append(lows, r.Low), append(highs, r.High)
	}
	return lanes, xids, lows, highs
}

// Rollback gives everything back. A connection that is lost has nothing to give back.
func (s *Session) Rollback(ctx context.Context) error {
	if s.Conn.IsClosed() || s.Conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	_, err := s.Conn.Exec(ctx, "ROLLBACK")
	return err
}
