package claim

import "slices"

// event lets one thing happen.
func (s *simulation) event() {
	total := 0
	for _, weight := range s.weights {
		total += weight
	}
	n, kind := s.rnd.IntN(total), 0
	for n >= s.weights[kind] {
		n -= s.weights[kind]
		kind++
	}
	switch kind {
	case eventWork:
		s.work()
	case eventWrite:
		s.write()
	case eventTick:
		ms := int64(s.rnd.IntN(40))
		if s.percent(s.jump) {
			ms = 210
		}
		s.advanceTime(ms)
	case eventOutsider:
		s.meddle()
	case eventCut:
		s.cut(s.pick())
	case eventDie:
		s.die(s.processes[s.rnd.IntN(s.processCount)])
	case eventCrash:
		s.crash()
	case eventTruncate:
		s.truncate()
	case eventSweep:
		s.sweep(s.pick().process)
	case eventSwarm:
		s.swarm()
	case eventClockBack:
		s.db.clock -= int64(s.rnd.IntN(300))
		s.tracef("the server's clock was set back")
	}
}

// work lets a worker go on for a while.
func (s *simulation) work() {
	w := s.pick()
	if w.number == s.slow && (w.step == viewed || w.step == settled) && !s.percent(10) {
		return
	}
	w.advance()
	for w.step != idle && s.failure == "" && s.percent(s.burst) {
		if w.number == s.slow && (w.step == viewed || w.step == settled) {
			return
		}
		w.advance()
	}
}

// cut ends a worker's connection; the server rolls back at once, the worker will notice.
func (s *simulation) cut(w *simWorker) {
	s.tracef("the server cuts worker %d off", w.number)
	if w.inTransaction() {
		w.rollback()
	}
	w.lost = true
}

// die ends a process; another takes its place, with an empty book. What it owed only the sweep will find.
func (s *simulation) die(p *simProcess) {
	s.saw(died)
	s.heal = s.heal || len(p.book.owed) > 0
	for _, w := range s.workers {
		if w.process == p {
			s.tracef("the process of worker %d dies", w.number)
			if w.inTransaction() {
				w.rollback()
			}
			s.heal = s.heal || w.step == settled && len(w.short) > 0
			w.step, w.lost = idle, false
		}
	}
	p.book = NewBook()
}

// keepUndo notes the table as it is before a claim writes to it.
func (s *simulation) keepUndo() {
	if s.weights[eventCrash] > 0 {
		s.undo = append(s.undo[:0], s.db.rows...)
		s.undoCommit = s.db.commits + 1
	}
}

// crash restarts the server. If the last commit was a claim's, it may be undone, as by a disk that lied; the sequence may
// skip some ids. The incarnation may look the same: that is why any lost connection voids the floors.
func (s *simulation) crash() {
	d := &s.db
	s.tracef("the server crashes")
	for _, w := range s.workers {
		s.cut(w)
	}
	undone := d.commits == s.undoCommit && s.percent(70)
	for i := range s.writers {
		if s.writers[i].open {
			s.endWriter(i, false)
		}
	}
	for len(s.outsiders) > 0 {
		s.endOutsider(0)
	}
	if undone {
		s.saw(commitUndone)
		s.heal = true // a release may be undone too, that nobody owes any more
		for i, old := range s.undo {
			if r := &d.rows[i]; old.fate == stored {
				old.acked, old.claim, old.locker = r.acked, r.claim, 0
				if r.fate != stored && r.acked == 0 {
					old.acked = -1 // buried, once: a worker cut off may deliver later ones
				}
				d.rows[i] = old
			}
		}
		s.tracef("the last claim's commit is undone")
		s.undoCommit = -1
	}
	if d.called && s.percent(50) {
		d.last += int64(s.rnd.IntN(32))
	}
	if s.percent(50) {
		d.reincarnate()
	}
}

// truncate empties the table and restarts the sequence. It waits for every transaction that has touched the table.
func (s *simulation) truncate() {
	d := &s.db
	for i := range s.writers {
		if w := &s.writers[i]; w.open && len(w.rows) > 0 {
			s.endWriter(i, s.percent(50))
		}
	}
	for len(s.outsiders) > 0 {
		s.endOutsider(0)
	}
	for _, w := range s.workers {
		for w.inTransaction() {
			w.advance()
		}
	}
	for i := range d.rows {
		if d.rows[i].fate == stored {
			d.rows[i].fate = truncated
		}
	}
	d.last, d.called = 1, false
	d.reincarnate()
	d.commits++
	s.saw(truncatedTable)
	s.tracef("TRUNCATE, RESTART IDENTITY")
}

// sweep lets the book owe a release to keys that nothing else would ever release.
func (s *simulation) sweep(p *simProcess) {
	s.db.stuckKeys(func(lane int16, key string) {
		s.tracef("the sweep finds key %q", key)
		p.book.Owe(View{}, lane, nil, []string{key})
	})
}

// simOutsider is a transaction that holds rows' locks, and may delete or move what it has locked.
type simOutsider struct {
	xid    uint64
	number int // below 0
	places []int
}

// meddle lets an outsider lock a few rows, or lets one end.
func (s *simulation) meddle() {
	if len(s.outsiders) > 0 && (len(s.outsiders) == 3 || s.percent(45)) {
		s.endOutsider(s.rnd.IntN(len(s.outsiders)))
		return
	}
	var free []int
	for i := range s.db.rows {
		if r := &s.db.rows[i]; r.fate == stored && r.locker == 0 {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return
	}
	o := simOutsider{xid: s.db.assignXid(), number: -1}
	for slices.ContainsFunc(s.outsiders, func(other simOutsider) bool { return other.number == o.number }) {
		o.number--
	}
	for range 1 + s.rnd.IntN(2) {
		if r := free[s.rnd.IntN(len(free))]; s.db.rows[r].locker == 0 {
			s.db.rows[r].locker = o.number
			o.places = append(o.places, r)
			s.tracef("an outsider locks row %d", s.db.rows[r].id)
		}
	}
	s.outsiders = append(s.outsiders, o)
}

func (s *simulation) endOutsider(n int) {
	o := s.outsiders[n]
	for _, place := range o.places {
		r := &s.db.rows[place]
		r.locker = 0
		switch kind := s.rnd.IntN(20); {
		case kind < 5: // an UPDATE of nothing that matters
			r.version++
		case kind == 5 && s.weights[eventSweep] > 0 && !s.calm:
			r.fate = deleted
			s.heal = s.heal || r.holds
			s.saw(deletedByHand)
			s.tracef("an outsider deletes row %d", r.id)
		}
		s.tracef("an outsider lets go of row %d", r.id)
	}
	s.db.end(o.xid)
	s.db.commits++
	s.outsiders = slices.Delete(s.outsiders, n, n+1)
}
