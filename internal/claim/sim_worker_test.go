package claim

import (
	"slices"
	"time"
)

// simProcess is one process with its book.
type simProcess struct {
	book *Book
}

// simStep is what a worker has done of its claim. Between any two anything else may happen.
type simStep int8

const (
	idle    simStep = iota
	viewed          // has the book's view
	probed          // BEGIN, and the snapshot that chooses lanes
	chosen          // has the lanes' locks
	scanned         // has the snapshot of the claim
	claimed         // has the rows' locks, and an xid
	sent            // the publisher is done
	settled         // committed, and not yet remembered
)

// simWorker drives the real Book and Plan as Session and the forwarder do. It has a connection of its own.
type simWorker struct {
	sim     *simulation
	process *simProcess
	number  int // from 1; owner of locks
	step    simStep
	lost    bool // the server ended the connection, which the worker notices when it uses it next
	claim   int  // counts all claims of a schedule

	limitRows, limitBytes, limitLanes int

	order      []int
	view       View
	floors     [Lanes]int64
	began      int64
	facts      Facts
	ready, due [Lanes]bool
	lanes      []int16
	allowed    int
	rows       []Row
	versions   []simVersion
	plan       *Plan
	outcomes   []Outcome
	settlement *Settlement
	short      []string
}

// advance does the next step.
func (w *simWorker) advance() {
	s := w.sim
	if w.lost && w.step != idle && w.step != claimed && w.step != settled {
		s.tracef("worker %d finds its connection lost", w.number)
		w.lost = false
		w.giveUp(true)
		return
	}
	switch w.step {
	case idle:
		w.begin()
	case viewed:
		w.probe()
		w.step = probed
		s.tracef("worker %d probes: snapshot %v, empty %v", w.number, w.facts.Probe, w.facts.Empty)
	case probed:
		w.lockLanes()
		w.step = chosen
		s.tracef("worker %d locks lanes %v, drawn %d", w.number, w.lanes, w.facts.Drawn)
		if w.view.Incarnation != "" && w.view.Incarnation != w.facts.Incarnation {
			s.saw(otherIncarnation)
			w.giveUp(true)
		}
	case chosen:
		w.scan()
		w.step = scanned
	case scanned:
		w.lockRows()
		w.step = claimed
		w.plan = NewPlan(w.rows, w.allowed, s.quarantine)
		w.traceRows()
	case claimed:
		w.publish()
		w.step = sent
	case sent:
		w.settle()
	case settled:
		w.remember()
		w.step = idle
	}
}

func (w *simWorker) begin() {
	s := w.sim
	s.claims++
	w.claim = s.claims
	w.order = s.laneOrder(w.order[:0])
	if !s.calm && s.percent(20) { // a busy worker looks at a few lanes only
		w.order = w.order[:1+s.rnd.IntN(len(w.order))]
	}
	w.limitRows, w.limitBytes, w.limitLanes = s.limits()
	w.view = w.process.book.View(w.order, false)
	w.step = viewed
	if s.tracing {
		s.tracef("worker %d begins claim %d: lanes %v, floors %v, late %v, owed %v, limits %d rows, %d bytes, %d lanes",
			w.number, w.claim, w.view.Lanes, w.view.Floors, w.view.Late, w.view.Owed, w.limitRows, w.limitBytes, w.limitLanes)
	}
}

// inTransaction says whether the server has a transaction of this worker open.
func (w *simWorker) inTransaction() bool { return w.step >= probed && w.step <= sent && !w.lost }

// giveUp rolls the claim back. A lost connection, or another incarnation, voids all that the process remembers.
func (w *simWorker) giveUp(forget bool) {
	w.rollback()
	w.step = idle
	if forget {
		w.process.book.Forget()
	}
}

// rollback is what the server does to the worker's transaction.
func (w *simWorker) rollback() {
	w.unlock()
	w.sim.db.end(w.facts.Own)
}

func (w *simWorker) unlock() {
	d := &w.sim.db
	for i := range d.rows {
		if d.rows[i].locker == w.number {
			d.rows[i].locker = 0
		}
	}
	for _, lane := range w.lanes {
		if d.lanes[lane] == w.number {
			d.lanes[lane] = 0
		}
	}
}

// publish gives the groups to the broker. The first row of a group that is not acknowledged ends it.
func (w *simWorker) publish() {
	s := w.sim
	w.outcomes = slices.Grow(w.outcomes[:0], len(w.rows))[:len(w.rows)]
	clear(w.outcomes)
	for _, group := range w.plan.Groups() {
		for _, i := range group {
			w.outcomes[i] = s.verdict()
			if w.outcomes[i].Verdict != Acked {
				if s.tracing {
					s.tracef("worker %d: row %d, verdict %d", w.number, w.plan.Rows[i].ID, w.outcomes[i].Verdict)
				}
				break
			}
			s.deliver(w, int(w.plan.Rows[i].TID.BlockNumber))
		}
	}
}

// settle does what Session.Settle does up to the answer to COMMIT.
func (w *simWorker) settle() {
	s, d := w.sim, &w.sim.db
	w.settlement = w.plan.Settle(w.outcomes)
	for _, lane := range w.lanes {
		for _, key := range w.view.Owed[lane] {
			if !slices.Contains(w.settlement.Release[lane], key) {
				w.settlement.Release[lane] = append(w.settlement.Release[lane], key)
			}
		}
	}
	if len(w.rows) == 0 && w.process.book.Lagging(w.facts.Drawn) {
		w.facts.Own = d.assignXid()
		s.saw(idleXid)
	}
	if s.commitFails() {
		s.tracef("worker %d: COMMIT fails", w.number)
		w.giveUp(false)
		return
	}
	w.apply()
	d.commits++
	d.end(w.facts.Own)
	w.unlock()
	w.step = settled
	s.tracef("worker %d has committed", w.number)
	if s.answerLost() { // the worker can't know what became of its claim
		s.tracef("worker %d loses its connection before the answer", w.number)
		s.heal = s.heal || len(w.short) > 0
		w.step = idle
		w.process.book.Forget()
	}
}

// remember does what Session.Settle does after the answer.
func (w *simWorker) remember() {
	s, b := w.sim, w.process.book
	for lane, released := range w.settlement.Release {
		var short []string
		for _, key := range released {
			if slices.Contains(w.short, key) {
				short = append(short, key)
			}
		}
		b.Owe(w.view, lane, released, short)
	}
	w.facts.Lanes = w.settlement.Lanes
	s.watch(w)
	b.Remember(w.view, w.facts, time.UnixMilli(s.now))
	s.watched(w)
}
