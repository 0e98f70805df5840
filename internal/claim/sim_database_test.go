package claim

import (
	"math"
	"slices"
)

// A row's time when it never waited, and when it is parked.
const (
	simReady  int64 = -1
	simParked int64 = math.MaxInt64
)

// fate says where a row is. It is in one place only.
type fate int8

const (
	written   fate = iota // its transaction has not committed
	stored                // in the outbox, for everyone to see
	aborted               // its transaction rolled back
	published             // settled
	dead                  // among the dead letters
	deleted               // by somebody's hand
	truncated             // with the whole table
)

// simRow is a row of the modelled table. Its index is its place: what PostgreSQL calls a ctid, but that version counts moves.
type simRow struct {
	fate    fate
	id      int64
	xid     uint64
	lane    int16
	key     string
	delayed bool // by its writer
	holds   bool
	at      int64
	version int
	locker  int // worker above 0, outsider below, 0 nobody

	deadHolds bool // its dead letter quarantines the key
	claim     int  // the last that saw it
	acked     int  // the claim in which the broker acknowledged it last; 0: never, nor was it ever buried
}

// simDatabase is as much of PostgreSQL as the claim rests on: xids in the order of their assignment, snapshots, a sequence
// that no rollback turns back, rows that become visible by their transaction's commit, row locks and lane locks.
// What a claim changes is written at its commit, in one piece: until then nobody could see it.
type simDatabase struct {
	next      uint64   // the next xid
	completed uint64   // the highest that has ended
	running   []uint64 // ascending
	last      int64    // of the sequence
	called    bool
	life      int // of server and sequence
	clock     int64
	rows      []simRow
	lanes     [Lanes]int // the worker that holds a lane's lock; 0: none
	commits   int
}

func (d *simDatabase) reset(firstXid uint64) {
	*d = simDatabase{next: firstXid, completed: firstXid - 1, last: 1, clock: 1_000_000, running: d.running[:0], rows: d.rows[:0]}
}

func (d *simDatabase) assignXid() uint64 {
	xid := d.next
	d.next++
	d.running = append(d.running, xid)
	return xid
}

// end ends a transaction; one without an xid leaves no trace.
func (d *simDatabase) end(xid uint64) {
	if i := slices.Index(d.running, xid); i >= 0 {
		d.running = slices.Delete(d.running, i, i+1)
		d.completed = max(d.completed, xid)
	}
}

// snapshot is what pg_current_snapshot() shows: of those at or above xmax nothing is said, running or not.
func (d *simDatabase) snapshot() Snapshot {
	s := Snapshot{Xmax: d.completed + 1}
	for _, xid := range d.running {
		if xid < s.Xmax {
			s.Running = append(s.Running, xid)
		}
	}
	return s
}

// visible says whether a transaction that was assigned its xid has ended.
func (d *simDatabase) visible(xid uint64) bool {
	return !slices.Contains(d.running, xid)
}

func (d *simDatabase) drawID() int64 {
	if d.called {
		d.last++
	}
	d.called = true
	return d.last
}

// drawn is the highest id drawn, as choose_lanes.sql reads it.
func (d *simDatabase) drawn() int64 {
	if d.called {
		return d.last
	}
	return d.last - 1
}

// reincarnate makes all that was remembered void.
func (d *simDatabase) reincarnate() { d.life++ }

func (d *simDatabase) incarnation() string { return incarnations[d.life%len(incarnations)] }

// insert stores a row of a transaction. The xid is assigned before the id is drawn: the column defaults see to that.
func (d *simDatabase) insert(xid *uint64, lane int16, key string, delay int64) int {
	if *xid == 0 {
		*xid = d.assignXid()
	}
	r := simRow{id: d.drawID(), lane: lane, key: key, at: simReady}
	r.xid = *xid
	if delay > 0 {
		r.at, r.delayed = d.clock+delay, true
	}
	d.rows = append(d.rows, r)
	return len(d.rows) - 1
}

// due says whether a row waits no longer, by the time at which the asking transaction began.
func (r *simRow) due(now int64) bool { return r.at != simReady && r.at <= now }

// quarantined says whether a key has a dead letter that holds.
func (d *simDatabase) quarantined(key string) bool {
	for i := range d.rows {
		if r := &d.rows[i]; r.fate == dead && r.deadHolds && r.key == key {
			return true
		}
	}
	return false
}

// holding gives the places of the first holding rows of a key, by id.
func (d *simDatabase) holding(key string, after int64, limit int) (places []int) {
	for i := range d.rows {
		if len(places) == limit {
			break
		}
		if r := &d.rows[i]; r.fate == stored && r.holds && r.key == key && r.id > after {
			places = append(places, i)
		}
	}
	return places
}

// stuckKeys are those whose first holding row is parked, as stuck_keys.sql finds them.
func (d *simDatabase) stuckKeys(found func(lane int16, key string)) {
	var keys []string
	for i := range d.rows {
		if r := &d.rows[i]; r.fate == stored && r.holds && !slices.Contains(keys, r.key) {
			keys = append(keys, r.key)
			if r.at == simParked {
				found(r.lane, r.key)
			}
		}
	}
}

// empty says whether no committed row is left.
func (d *simDatabase) empty() bool {
	return !slices.ContainsFunc(d.rows, func(r simRow) bool { return r.fate == stored })
}
