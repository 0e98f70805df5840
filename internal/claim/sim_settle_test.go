package claim

import (
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// apply writes a settlement: the statements by ctid, then those by key.
func (w *simWorker) apply() {
	s, st := w.sim, w.settlement
	s.keepUndo()
	for _, tid := range st.Done { // delete.sql
		if r := w.own(tid); r != nil {
			if r.acked != w.claim {
				s.fail("row %d was settled, but the broker did not acknowledge it", r.id)
			}
			r.fate = published
		}
	}
	for i, tid := range st.Retry { // retry.sql
		if r := w.own(tid); r != nil {
			r.holds = r.key != ""
			r.move(s.db.clock + int64(st.RetryDelay[i]*1000))
			s.saw(failed)
		}
	}
	for _, tid := range st.Park { // park.sql
		if r := w.own(tid); r != nil {
			r.holds = true
			r.move(simParked)
			s.saw(parked)
		}
	}
	for i, tid := range st.Bury { // bury.sql
		if r := w.own(tid); r != nil {
			s.checkBurial(w, i)
			r.fate, r.deadHolds = dead, st.BuryHolds[i]
			if st.BuryTail[i] {
				s.saw(tailBuried)
			}
		}
	}
	for i, key := range st.ReparkKeys {
		w.repark(key, st.ReparkAfter[i])
	}
	w.short = nil
	for _, lane := range w.lanes {
		keys := slices.Clone(st.Release[lane])
		slices.Sort(keys)
		for _, key := range keys {
			w.release(key)
		}
	}
	if s.tracing {
		w.traceSettlement()
	}
}

// own gives a row that the statements by ctid may touch: nobody's but the claim's, and once.
func (w *simWorker) own(tid pgtype.TID) *simRow {
	r := &w.sim.db.rows[tid.BlockNumber]
	if r.fate != stored || r.locker != w.number {
		w.sim.fail("row %d was settled by claim %d, which does not own it or has settled it already", r.id, w.claim)
		return nil
	}
	return r
}

// move changes a row's time. It moves the row, as PostgreSQL does.
func (r *simRow) move(at int64) {
	r.at = at
	r.version++
}

// free says whether a statement that passes over locked rows takes this one.
func (w *simWorker) free(r *simRow) bool { return r.locker == 0 || r.locker == w.number }

// repark is repark.sql.
func (w *simWorker) repark(key string, after int64) {
	s := w.sim
	n := 0
	for i := range s.db.rows {
		r := &s.db.rows[i]
		if r.fate == stored && r.holds && r.key == key && r.id > after && r.at < simParked && w.free(r) && n < 2*s.releaseLimit {
			r.move(simParked)
			n++
			s.saw(reparked)
		}
	}
}

// release is release.sql; its 64 is scaled down to the schedule's size. It notes a key whose release came out short.
func (w *simWorker) release(key string) {
	s := w.sim
	head := s.db.holding(key, 0, s.releaseLimit)
	at := s.db.clock
	for _, place := range head {
		if r := &s.db.rows[place]; r.at < simParked {
			at = max(at, r.at)
		}
	}
	moved := 0
	for _, place := range head {
		r := &s.db.rows[place]
		switch {
		case r.at != simParked:
		case !w.free(r):
			w.short = append(w.short, key)
			s.saw(releaseShort)
			return // what is behind it could not go before it
		default:
			w.writes()
			r.move(at)
			s.saw(released)
			if moved++; moved > s.releaseBound {
				s.fail("claim %d released %d rows of key %s at once", w.claim, moved, key)
			}
		}
	}
}

// writes gives the transaction an xid if it has none; one that only repeats a release gets it here. Nobody is told.
func (w *simWorker) writes() {
	if len(w.rows) == 0 && w.facts.Own == 0 {
		s := w.sim
		s.db.end(s.db.assignXid())
	}
}
