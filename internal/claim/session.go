package claim

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// ErrIncarnation says that the floors of a view belong to another server or another life of the sequence. The claim was
// rolled back; forget the book and claim again.
var ErrIncarnation = errors.New("outbox: the server or the outbox's sequence is not the one it was")

// aroundClaims is the number of claims that expect locked rows after one has met some.
const aroundClaims = 100

// lockNotAvailable is SQLSTATE lock_not_available: FOR UPDATE NOWAIT met a locked row.
const lockNotAvailable = "55P03"

// Session claims and settles on one connection, one claim at a time.
type Session struct {
	Conn *pgx.Conn
	SQL  *pgsql.Statements

	around  int               // so many claims more expect rows that outsiders have locked
	strings map[string]string // topics and keys: most repeat from claim to claim
}

// Limits bound one claim.
type Limits struct {
	Rows      int           // in all lanes together, and for each kind of scan
	Bytes     int64         // of payload, metadata and uuid
	Oversized int64         // id of a larger row that may come along; 0: none
	Small     bool          // the small ones get the bytes first, not the old ones
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

// Claim locks lanes and rows in one round trip, in two when it meets a row that an outsider has locked. After an error no
// transaction is open, unless the connection is lost.
func (s *Session) Claim(ctx context.Context, v View, limits Limits) (*Claimed, error) {
	if s.around > 0 {
		s.around--
		return s.claim(ctx, s.SQL.ClaimAround, v, limits)
	}
	c, err := s.claim(ctx, s.SQL.ClaimFree, v, limits)
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == lockNotAvailable && !s.Conn.IsClosed() {
		s.around = aroundClaims
		return s.claim(ctx, s.SQL.ClaimAround, v, limits)
	}
	return c, err
}

func (s *Session) claim(ctx context.Context, sql string, v View, limits Limits) (*Claimed, error) {
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
	batch.Queue(s.SQL.ChooseLanes, v.Lanes, v.Floors, limits.Lanes, owing, lanes, xids, lows, highs)
	batch.Queue(sql, v.Lanes, v.Floors, limits.Rows, limits.Bytes, limits.Oversized, lanes, xids, lows, limits.Small)
	if s.strings == nil {
		s.strings = map[string]string{}
	}
	c, err := readClaim(s.Conn.SendBatch(ctx, batch), limits.Bell, s.strings)
	if err == nil && v.Incarnation != "" && v.Incarnation != c.Facts.Incarnation {
		err = ErrIncarnation
	}
	if err != nil {
		return nil, errors.Join(err, s.Rollback(ctx))
	}
	return c, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func readClaim(results pgx.BatchResults, bell bool, strings map[string]string) (*Claimed, error) {
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
		return c.readRows(rows, strings)
	}()
	return c, errors.Join(err, results.Close())
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
