package claim

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// The statements of the claim, as the files in internal/pgsql/statements have them. Each is modelled in two halves, between
// which anything may happen: the snapshot with all that is read by it, and what looks at the present: locks, the sequence.

// probe is the first half of choose_lanes.sql.
func (w *simWorker) probe() {
	d := &w.sim.db
	w.began = d.clock
	w.facts = Facts{Probe: d.snapshot()}
	w.ready, w.due, w.floors = [Lanes]bool{}, [Lanes]bool{}, [Lanes]int64{}
	for i, lane := range w.view.Lanes {
		w.floors[lane] = w.view.Floors[i]
	}
	for i := range d.rows {
		r := &d.rows[i]
		if r.fate != stored {
			continue
		}
		if r.due(w.began) {
			w.due[r.lane] = true
		}
		if r.at == simReady && r.id >= w.floors[r.lane] {
			w.ready[r.lane] = true
		}
	}
	for _, l := range w.view.Late {
		if d.visible(l.Xid) && len(d.lateRows(l, 1)) > 0 {
			w.ready[l.Lane] = true
		}
	}
	for _, lane := range w.view.Lanes {
		if !w.ready[lane] {
			w.facts.Empty = append(w.facts.Empty, lane)
		}
	}
}

// lockLanes is the second half: the locks, and what the sequence says by now.
func (w *simWorker) lockLanes() {
	d := &w.sim.db
	w.lanes = w.lanes[:0]
	for _, lane := range w.view.Lanes {
		if len(w.lanes) == w.limitLanes {
			break
		}
		if w.ready[lane] || w.due[lane] || len(w.view.Owed[lane]) > 0 {
			if d.lanes[lane] == 0 {
				d.lanes[lane] = w.number
				w.lanes = append(w.lanes, lane)
			} else {
				w.sim.saw(laneBusy)
			}
		}
	}
	w.facts.Drawn = d.drawn()
	w.facts.Incarnation = d.incarnation()
}

// scan is the first half of claim.sql.
func (w *simWorker) scan() {
	d := &w.sim.db
	snapshot := d.snapshot()
	w.allowed = max(1, w.limitRows/max(1, len(w.lanes)))
	w.rows, w.versions = nil, w.versions[:0]
	for _, lane := range w.lanes {
		w.found(Due, d.dueRows(lane, w.began, w.allowed))
		w.found(Ready, d.readyRows(lane, w.floors[lane], w.allowed))
		for _, l := range w.view.Late {
			if l.Lane == lane && d.visible(l.Xid) {
				w.found(Late, d.lateRows(l, w.allowed))
			}
		}
	}
	slices.SortFunc(w.versions, func(a, b simVersion) int { return cmp.Compare(a.id, b.id) })
	for i := range w.rows {
		r := &w.rows[i]
		if r.Key != "" {
			r.Quarantined = d.quarantined(r.Key)
			for _, place := range d.holding(r.Key, 0, w.allowed) {
				r.Heads = append(r.Heads, d.rows[place].id)
			}
		}
	}
	if len(w.rows) > 0 {
		w.facts.Claim = snapshot
	}
}

// simVersion is one row as the scan saw it.
type simVersion struct {
	id      int64
	place   int
	version int
}

func (w *simWorker) found(kind Kind, places []int) {
	for _, place := range places {
		r := &w.sim.db.rows[place]
		row := Row{Kind: kind, TID: pgtype.TID{BlockNumber: uint32(place), Valid: true}, ID: r.id, Lane: r.lane, Key: r.key, Holds: r.holds}
		if kind == Late {
			row.Xid = r.xid
		}
		w.rows = append(w.rows, row)
		w.versions = append(w.versions, simVersion{id: r.id, place: place, version: r.version})
	}
}

// lockRows is the second half: each row's lock, up to the budget, and the transaction's xid.
func (w *simWorker) lockRows() {
	d := &w.sim.db
	if len(w.rows) == 0 {
		return
	}
	w.facts.Own = d.assignXid()
	locked := map[uint32]bool{}
	for n, v := range w.versions {
		r := &d.rows[v.place]
		r.claim = w.claim
		switch {
		case n >= w.limitBytes:
			w.sim.saw(overBudget)
		case r.fate != stored || r.version != v.version || r.locker != 0:
			w.sim.saw(outsiderSeen)
		default:
			r.locker = w.number
			locked[uint32(v.place)] = true
		}
	}
	for i := range w.rows {
		w.rows[i].Locked = !locked[w.rows[i].TID.BlockNumber]
	}
}

func (d *simDatabase) dueRows(lane int16, now int64, limit int) (places []int) {
	for i := range d.rows {
		if r := &d.rows[i]; r.fate == stored && r.lane == lane && r.due(now) {
			places = append(places, i)
		}
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(d.rows[a].at, d.rows[b].at) })
	return places[:min(limit, len(places))]
}

func (d *simDatabase) readyRows(lane int16, floor int64, limit int) (places []int) {
	for i := range d.rows {
		if r := &d.rows[i]; r.fate == stored && r.lane == lane && r.at == simReady && r.id >= floor && len(places) < limit {
			places = append(places, i)
		}
	}
	return places
}

func (d *simDatabase) lateRows(l LateRange, limit int) (places []int) {
	for i := range d.rows {
		r := &d.rows[i]
		if r.fate == stored && r.xid == l.Xid && r.lane == l.Lane && r.at == simReady && r.id >= l.Low && r.id < l.High && len(places) < limit {
			places = append(places, i)
		}
	}
	return places
}
