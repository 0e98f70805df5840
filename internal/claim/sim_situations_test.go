package claim

import (
	"fmt"
	"slices"
)

// situation is something rare that the schedules must bring about, or they prove nothing.
type situation int

const (
	delivered situation = iota
	failed
	parked
	reparked
	released
	releaseShort
	tailBuried
	laneBusy
	overBudget
	outsiderSeen
	idleXid
	otherIncarnation
	truncatedTable
	died
	commitUndone
	deletedByHand
	lateFound
	lateCut
	lateCutUnderRaisedFloor
	scanCut
	scanCutUnderRaisedFloor
	floorRaised
	floorRaisedPastLong
	tooManyLong
	longStruckOff
	raisedByOlderEmptyProbe
	otherEra
	situationCount
)

var situationNames = [situationCount]string{
	"delivered", "failed", "parked", "parked again", "released", "release came out short", "tail buried", "lane busy", "over budget",
	"outsider seen", "xid for an idle pass", "other incarnation", "truncated", "process died", "commit undone", "deleted by hand", "late row claimed",
	"late look-up cut", "late look-up cut, floor raised since the view", "scan cut", "scan cut below a floor raised since the view",
	"floor raised", "floor raised past a long transaction", "too many long transactions", "long transaction struck off",
	"floor raised by an empty probe older than what was remembered before", "facts of another era",
}

func (s *simulation) saw(x situation) { s.situations[x]++ }

// watch is the book of a lane before something is remembered.
type watch struct {
	floors [len(simLanes)]int64
	long   [len(simLanes)]int
	newest [simWorkers]uint64 // the newest snapshot that each process has remembered
}

func (s *simulation) watch(w *simWorker) {
	b := w.process.book
	for i, lane := range simLanes[:s.lanes] {
		l := &b.lanes[lane]
		s.before.floors[i], s.before.long[i] = l.floor, len(l.long)
	}
	if w.view.era != b.era {
		s.saw(otherEra)
	}
	for _, f := range w.settlement.Lanes {
		raised := b.lanes[f.Lane].floor > w.floors[f.Lane]
		if f.LateCut {
			s.saw(lateCut)
			if raised {
				s.saw(lateCutUnderRaisedFloor)
			}
		}
		if f.Late != nil {
			s.saw(lateFound)
		}
		if f.Top != None {
			s.saw(scanCut)
			if raised && f.Top < b.lanes[f.Lane].floor {
				s.saw(scanCutUnderRaisedFloor)
			}
		}
	}
}

func (s *simulation) watched(w *simWorker) {
	b := w.process.book
	n := slices.Index(s.processes[:s.processCount], w.process)
	for i, lane := range simLanes[:s.lanes] {
		l := &b.lanes[lane]
		if l.floor > s.before.floors[i] {
			s.saw(floorRaised)
			if len(l.long) > s.before.long[i] {
				s.saw(floorRaisedPastLong)
			}
			if w.facts.Probe.Xmax < s.before.newest[n] && slices.Contains(w.facts.Empty, int16(lane)) {
				s.saw(raisedByOlderEmptyProbe)
			}
		} else if running, _ := w.facts.Probe.runningBelow(l.horizon); len(running) > maxLong {
			s.saw(tooManyLong)
		}
		if len(l.long) < s.before.long[i] {
			s.saw(longStruckOff)
		}
		s.tracef("worker %d remembers: lane %d has floor %d, candidate %d at horizon %d, long %v", w.number, lane, l.floor, l.next, l.horizon, l.long)
	}
	s.before.newest[n] = max(s.before.newest[n], w.facts.Probe.Xmax)
}

func (w *simWorker) traceRows() {
	if !w.sim.tracing {
		return
	}
	text := ""
	for _, r := range w.rows {
		text += fmt.Sprintf("; kind %d id %d key %q holds %t locked %t heads %v quarantined %t", r.Kind, r.ID, r.Key, r.Holds, r.Locked, r.Heads, r.Quarantined)
	}
	w.sim.tracef("worker %d claims at most %d a scan, xid %d, snapshot %v%s", w.number, w.allowed, w.facts.Own, w.facts.Claim, text)
}

func (w *simWorker) traceSettlement() {
	st := w.settlement
	ids := func(n int, id func(int) uint32) (text string) {
		for i := range n {
			text += fmt.Sprint(" ", w.sim.db.rows[id(i)].id)
		}
		return text
	}
	w.sim.tracef("worker %d settles: done%s; retry%s; park%s; bury%s; release %v, short %v; facts %+v", w.number,
		ids(len(st.Done), func(i int) uint32 { return st.Done[i].BlockNumber }), ids(len(st.Retry), func(i int) uint32 { return st.Retry[i].BlockNumber }),
		ids(len(st.Park), func(i int) uint32 { return st.Park[i].BlockNumber }), ids(len(st.Bury), func(i int) uint32 { return st.Bury[i].BlockNumber }),
		st.Release, w.short, st.Lanes)
}
