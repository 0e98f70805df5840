package claim

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// What claim.sql returns beside rows.
const (
	header  Kind = -1
	heldKey Kind = -2

	stateOver   = 1
	stateLocked = 2
)

// maxStrings bounds the topics and keys, of at most 2 KiB each, of which a session remembers the memory.
const maxStrings = 1000

// holder is what holds a key.
type holder struct {
	heads       []int64
	quarantined bool
}

// reader reads what claim.sql returns. Its fields are the columns; the text ones are good until the next row.
type reader struct {
	row                                      Row
	kind, state                              int16
	holds                                    bool
	size                                     int32
	txid, key, topic, uuid, payload, content pgtype.DriverBytes
	heads                                    []int64

	strings map[string]string
}

func (c *Claimed) readRows(rows pgx.Rows, strings map[string]string) error {
	defer rows.Close()
	r := &reader{strings: strings}
	columns := []any{&r.kind, &r.state, &r.row.TID, &r.txid, &r.row.ID, &r.row.Lane, &r.key, &r.holds, &r.size, &r.heads,
		&r.topic, &r.uuid, &r.payload, &r.content, &r.row.Attempts}
	var held map[string]holder
	for rows.Next() {
		r.row = Row{}
		if err := rows.Scan(columns...); err != nil {
			return err
		}
		switch r.row.Kind = Kind(r.kind); r.row.Kind {
		case header:
			if err := c.readHeader(r); err != nil {
				return err
			}
		case heldKey:
			if held == nil {
				held = map[string]holder{}
			}
			held[string(r.key)] = holder{r.heads, r.holds}
		default:
			if err := r.readRow(); err != nil {
				return err
			}
			c.Rows = append(c.Rows, r.row)
		}
	}
	if held != nil {
		for i := range c.Rows {
			h := held[c.Rows[i].Key]
			c.Rows[i].Heads, c.Rows[i].Quarantined = h.heads, h.quarantined
		}
	}
	return rows.Err()
}

func (c *Claimed) readHeader(r *reader) (err error) {
	c.Allowed = int(r.size)
	c.Rows = make([]Row, 0, c.Allowed*len(c.Lanes))
	if c.Facts.Claim, err = ParseSnapshot(string(r.topic)); err != nil {
		return err
	}
	c.Facts.Own, err = strconv.ParseUint(string(r.uuid), 10, 64)
	return err
}

// readRow completes a row.
func (r *reader) readRow() (err error) {
	row := &r.row
	row.Key, row.Holds, row.Size = r.same(r.key), r.holds, int64(r.size)
	row.Over, row.Locked = r.state == stateOver, r.state == stateLocked
	if row.Kind == Late {
		if row.Xid, err = strconv.ParseUint(string(r.txid), 10, 64); err != nil {
			return fmt.Errorf("outbox: txid %q of row %d: %w", r.txid, row.ID, err)
		}
	}
	row.Topic, row.UUID, row.Payload, row.Metadata = r.same(r.topic), string(r.uuid), bytes.Clone(r.payload), string(r.content)
	return nil
}

// same gives equal strings the same memory.
func (r *reader) same(text []byte) string {
	s, ok := r.strings[string(text)]
	if !ok {
		if len(r.strings) >= maxStrings {
			clear(r.strings)
		}
		s = string(text)
		r.strings[s] = s
	}
	return s
}
