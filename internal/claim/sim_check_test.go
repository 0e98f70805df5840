package claim

import (
	"fmt"
	"slices"
	"strings"
)

// fail notes the first thing that went wrong.
func (s *simulation) fail(format string, args ...any) {
	if s.failure == "" {
		s.failure = fmt.Sprintf(format, args...)
		s.tracef("FAILED: %s", s.failure)
	}
}

// deliver is the broker's acknowledgement. All earlier rows of the key must have gone before: delivered by this very
// claim, or out of the table. A delayed row takes its place when it falls due, so until it holds its key it is exempt,
// except from the order within one claim. A worker whose transaction the server has ended, unnoticed, may repeat what
// others have delivered, and no more.
func (s *simulation) deliver(w *simWorker, place int) {
	d := &s.db
	r := &d.rows[place]
	if s.tracing {
		s.tracef("worker %d delivers row %d of key %q", w.number, r.id, r.key)
	}
	if !w.lost && (r.fate != stored || r.locker != w.number) {
		s.fail("row %d was delivered by claim %d, which does not own it", r.id, w.claim)
	}
	for i := range d.rows[:place] {
		e := &d.rows[i]
		if r.key == "" || e.key != r.key || e.fate != stored || e.acked == w.claim || s.unordered && e.xid != r.xid {
			continue
		}
		switch {
		case w.lost:
			if e.acked == 0 && !r.delayed && !e.delayed {
				s.fail("out of order: row %d of key %s before row %d, by a worker cut off", r.id, r.key, e.id)
			}
		case e.claim == w.claim:
			s.fail("out of order: row %d of key %s before row %d of the same claim", r.id, r.key, e.id)
		case !r.delayed && (!e.delayed || e.holds):
			s.fail("out of order: row %d of key %s before row %d", r.id, r.key, e.id)
		}
	}
	if r.key != "" && !w.lost && d.quarantined(r.key) {
		s.fail("row %d of key %s was delivered behind a dead letter that quarantines it", r.id, r.key)
	}
	if !w.lost || r.acked == 0 {
		r.acked = w.claim
	}
	s.saw(delivered)
}

// checkBurial allows only what the broker refused for good, and tails of a quarantined key.
func (s *simulation) checkBurial(w *simWorker, n int) {
	st := w.settlement
	i := st.BuryRow[n]
	r := &w.plan.Rows[i]
	switch {
	case r.TID != st.Bury[n]:
		s.fail("the dead letter is told to be row %d", r.ID)
	case st.BuryTail[n]:
		if r.Key == "" || !s.db.quarantined(r.Key) {
			s.fail("row %d went to the dead letters as the tail of nothing", r.ID)
		}
	case w.outcomes[i].Verdict != Dead:
		s.fail("row %d went to the dead letters, but was not refused", r.ID)
	case st.BuryHolds[n] != (r.Key != "" && s.quarantine && !w.outcomes[i].Alone):
		s.fail("row %d went to the dead letters, and quarantines its key against the policy, or does not", r.ID)
	}
}

// checkReach makes sure that each process would find each ready row, were it the only one to survive.
func (s *simulation) checkReach() {
	for n, p := range s.processes[:s.processCount] {
		s.order = s.laneOrder(s.order[:0])
		v := p.book.View(s.order, false)
		if v.Incarnation != "" && v.Incarnation != s.db.incarnation() {
			continue // its next claim forgets
		}
		for i := range s.db.rows {
			r := &s.db.rows[i]
			if r.fate != stored || r.at != simReady || r.id >= v.Floors[slices.Index(v.Lanes, r.lane)] {
				continue
			}
			if !slices.ContainsFunc(v.Late, func(l LateRange) bool {
				return l.Lane == r.lane && l.Xid == r.xid && l.Low <= r.id && r.id < l.High
			}) {
				s.fail("stranded: row %d of lane %d lies below the floor of process %d, and is not on its list of late ones", r.id, r.lane, n+1)
			}
		}
	}
}

// restless says why a process is not where it can be at the end: with its floors above every id, whatever transaction is
// still open, with none on its lists that has ended, and with nothing owed.
func (s *simulation) restless(process int) string {
	b := s.processes[process].book
	if len(b.owed) > 0 {
		return fmt.Sprintf("it owes %v", b.owed)
	}
	s.order = s.laneOrder(s.order[:0])
	for _, lane := range s.order {
		l := &b.lanes[lane]
		if l.floor != s.db.drawn()+1 {
			return fmt.Sprintf("lane %d has floor %d, though %d ids were drawn", lane, l.floor, s.db.drawn())
		}
		for _, t := range l.long {
			if s.db.visible(t.xid) {
				return fmt.Sprintf("lane %d still lists transaction %d", lane, t.xid)
			}
		}
	}
	return ""
}

// left describes the rows that are still in the table.
func (s *simulation) left() string {
	var b strings.Builder
	for i := range s.db.rows {
		if r := &s.db.rows[i]; r.fate == stored {
			fmt.Fprintf(&b, " row %d of lane %d, key %q, xid %d, holds %t, at %d;", r.id, r.lane, r.key, r.xid, r.holds, r.at)
		}
	}
	return b.String()
}
