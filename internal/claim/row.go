package claim

import "github.com/jackc/pgx/v5/pgtype"

// Lanes is the number of lanes of a table; the schema's CHECK and the insert's hash know it too.
const Lanes = 64

// Kind says which scan of the claim found a row.
type Kind int16

// The scans of the claim, as statements/claim.sql numbers them.
const (
	Due   Kind = 0 // waiting, and its time has come
	Ready Kind = 1 // at or above the lane's floor
	Late  Kind = 2 // below it, written by a long transaction that has ended
)

// Row is one row that the claim saw. It is this worker's to settle unless Locked.
type Row struct {
	Kind   Kind
	TID    pgtype.TID
	Xid    uint64 // of the transaction that wrote it; only for Late
	ID     int64
	Lane   int16
	Key    string // "": no order asked
	Holds  bool   // failed or parked: later rows of its key wait for it
	Locked bool   // by an outsider: it stays as it is, and so do later rows of its key
	Over   bool   // the byte budget: the same
	Size   int64  // bytes of payload, metadata and uuid

	Heads       []int64 // ids of the first holding rows of its key, at most the lane's row limit
	Quarantined bool    // its key has dead letters that hold: it follows them

	Topic    string
	UUID     string
	Payload  []byte
	Metadata string // JSON
	Attempts int
}
