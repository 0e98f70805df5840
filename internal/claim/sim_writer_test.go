package claim

import "slices"

// simWriter is a business transaction. It holds the lock of each aggregate that it has written for until it ends, so the
// rows of a key have an order, that of their ids.
type simWriter struct {
	open bool
	long bool // stays open
	xid  uint64
	rows []int
}

// write begins a transaction, or lets one write or end.
func (s *simulation) write() {
	i := s.rnd.IntN(simOrdinary)
	w := &s.writers[i]
	switch {
	case !w.open:
		*w = simWriter{open: true, long: s.percent(s.long), rows: w.rows[:0]}
		if s.percent(s.early) {
			w.xid = s.db.assignXid()
		}
		s.tracef("writer %d begins: %+v", i, *w)
		if s.percent(70) {
			s.writeRows(i)
			if !w.long && s.percent(50) {
				s.endWriter(i, true)
			}
		}
	case s.rnd.IntN(10) < 5 && len(w.rows) < 12:
		s.writeRows(i)
	case !w.long || s.percent(25):
		s.endWriter(i, s.percent(85))
	}
}

func (s *simulation) writeRows(i int) {
	w := &s.writers[i]
	n := 1 + s.rnd.IntN(2)
	if w.long {
		n += s.rnd.IntN(4)
	}
	key, lane := "", simLanes[s.rnd.IntN(s.lanes)]
	if !s.percent(s.unkeyed) {
		k := s.rnd.IntN(s.keys)
		if holder := s.aggregates[k]; holder != 0 && holder != i+1 && !s.unordered {
			return // it would wait for the aggregate's lock
		}
		s.aggregates[k] = i + 1
		key, lane = simKeys[k], simLanes[k%s.lanes]
	}
	for range n {
		delay := int64(0)
		if s.percent(s.delayed) {
			delay = 1 + int64(s.rnd.IntN(150))
		}
		place := s.db.insert(&w.xid, int16(lane), key, delay)
		w.rows = append(w.rows, place)
		s.tracef("writer %d, xid %d, writes row %d of lane %d, key %q, delay %d", i, w.xid, s.db.rows[place].id, lane, key, delay)
	}
}

func (s *simulation) endWriter(i int, commit bool) {
	w := &s.writers[i]
	end := aborted
	if commit {
		end = stored
	}
	for _, place := range w.rows {
		s.db.rows[place].fate = end
	}
	s.db.end(w.xid)
	s.db.commits++
	for k := range s.aggregates {
		if s.aggregates[k] == i+1 {
			s.aggregates[k] = 0
		}
	}
	s.tracef("writer %d, xid %d, ends; committed: %t", i, w.xid, commit)
	*w = simWriter{rows: w.rows[:0]}
}

// swarm begins so many transactions that a floor has to wait for some of them, or ends them.
func (s *simulation) swarm() {
	others := s.writers[simOrdinary:]
	if slices.ContainsFunc(others, func(w simWriter) bool { return w.open }) {
		for i := range others {
			if others[i].open && s.percent(70) {
				s.endWriter(i+simOrdinary, true)
			}
		}
		return
	}
	for i := range others {
		others[i] = simWriter{open: true, xid: s.db.assignXid(), rows: others[i].rows[:0]}
	}
	s.tracef("many transactions begin")
}
