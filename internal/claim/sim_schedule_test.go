package claim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

const (
	simWorkers  = 4
	simWriters  = 24
	simOrdinary = 4 // of the writers; the others begin all at once
)

var (
	incarnations = strings.Split("abcdefghijklmnopqrstuvwxyz", "")
	simLanes     = [...]int{5, 0, 63}
	simKeys      = [...]string{"k", "l", "m", "n"}
)

// simulation is one schedule: a short random history of one table, its writers and its forwarders. The seed decides
// everything, so that a schedule can be replayed.
type simulation struct {
	pcg rand.PCG
	rnd *rand.Rand
	mix
	db         simDatabase
	now        int64 // the clock of the processes, which never goes back
	processes  [simWorkers]*simProcess
	workers    []*simWorker
	writers    [simWriters]simWriter
	outsiders  []simOutsider
	aggregates [len(simKeys)]int // the writer that holds an aggregate's lock
	order      []int
	claims     int
	calm       bool // the end: every publish and every COMMIT succeeds
	heal       bool // something happened that only the sweep can heal
	undo       []simRow
	undoCommit int
	before     watch

	situations [situationCount]int
	failure    string
	tracing    bool
	trace      []string
}

func newSimulation() *simulation {
	s := &simulation{}
	s.rnd = rand.New(&s.pcg)
	for n := range simWorkers {
		s.workers = append(s.workers, &simWorker{sim: s, number: n + 1})
	}
	return s
}

// run plays one schedule and returns what went wrong, or nothing.
func (s *simulation) run(seed uint64) string {
	s.pcg.Seed(seed, 0x9e3779b97f4a7c15)
	s.mix = s.newMix()
	s.db.reset(uint64(3 + s.rnd.IntN(5)))
	s.now, s.claims, s.calm, s.heal, s.failure, s.undoCommit = 1000, 0, false, false, "", -1
	s.writers, s.outsiders, s.aggregates = [simWriters]simWriter{}, s.outsiders[:0], [len(simKeys)]int{}
	s.workers = s.workers[:s.workerCount]
	for i := range s.processCount {
		s.processes[i] = &simProcess{book: NewBook()}
	}
	for i, w := range s.workers {
		w.process, w.step, w.lost, w.rows, w.facts, w.lanes = s.processes[i%s.processCount], idle, false, nil, Facts{}, w.lanes[:0]
	}
	s.tracef("%+v", s.mix)
	for range s.events {
		if s.failure != "" {
			return s.failure
		}
		s.event()
	}
	s.drain()
	return s.failure
}

// drain lets the processes go on in peace. A bounded number of claims must empty the table; none scans from zero. Sometimes
// a few transactions stay open meanwhile, and end when the floors have been raised past them.
func (s *simulation) drain() {
	s.calm = true
	if len(s.outsiders) > 0 && s.percent(50) {
		s.endWriters(true)
		s.checkQuiet()
	}
	for len(s.outsiders) > 0 {
		s.endOutsider(0)
	}
	if s.percent(30) {
		s.tracef("the end begins, with open transactions")
		s.endWriters(false)
		s.empty()
	}
	s.tracef("the end begins")
	s.endWriters(true)
	s.empty()
}

// checkQuiet lets the processes work while outsiders keep their locks. Rows that can't go must not be moved to and fro
// meanwhile: as long as nothing is delivered, a row may be parked, and released once.
func (s *simulation) checkQuiet() {
	s.tracef("outsiders keep their locks")
	s.settleDown()
	s.advanceTime(3000)
	var before []simRow
	last := -1
	for range 20 + len(s.db.rows) {
		if n := s.situations[delivered]; n != last {
			last, before = n, append(before[:0], s.db.rows...)
		}
		s.pass(s.pick())
		for i := range before {
			if moved := s.db.rows[i].version - before[i].version; moved > 2 {
				s.fail("row %d was moved %d times to no avail, while outsiders kept their locks", before[i].id, moved)
				return
			}
		}
	}
}

// settleDown ends the claims that are going on.
func (s *simulation) settleDown() {
	busy := func(w *simWorker) bool { return w.step != idle || w.lost }
	for slices.ContainsFunc(s.workers, busy) {
		if w := s.pick(); busy(w) {
			w.advance()
		}
	}
}

// endWriters ends all writers, or leaves some: fewer than a floor would have to wait for.
func (s *simulation) endWriters(all bool) {
	for i := range s.writers {
		if s.writers[i].open && (all || i >= simOrdinary || s.percent(30)) {
			s.endWriter(i, s.percent(80))
		}
	}
}

// empty lets the processes work until nothing is left, and comes to rest.
func (s *simulation) empty() {
	s.settleDown()
	s.checkReach()
	s.advanceTime(3000)
	passes := 20 + 4*len(s.db.rows)*s.workerCount
	for !s.db.empty() && s.failure == "" {
		if passes--; passes < 0 {
			s.fail("stranded:%s", s.left())
			return
		}
		if s.heal && s.percent(30) {
			s.sweep(s.pick().process)
		}
		s.pass(s.pick())
	}
	for i := range s.processCount {
		for n := 0; s.failure == "" && s.restless(i) != ""; n++ {
			if n == restPasses {
				s.fail("process %d does not come to rest: %s", i+1, s.restless(i))
			}
			s.advanceTime(longAge.Milliseconds() / 2)
			s.pass(s.workers[i])
		}
	}
}

// restPasses are enough to take all transactions for long, also one that began after the others had ended or been listed,
// and to prove one more candidate.
const restPasses = 12

// pass is a whole claim without anything in between.
func (s *simulation) pass(w *simWorker) {
	s.advanceTime(1 + int64(s.rnd.IntN(50)))
	w.advance()
	for w.step != idle {
		w.advance()
	}
}

func (s *simulation) pick() *simWorker { return s.workers[s.rnd.IntN(len(s.workers))] }

func (s *simulation) percent(p int) bool { return s.rnd.IntN(100) < p }

func (s *simulation) advanceTime(ms int64) {
	s.now += ms
	s.db.clock += ms
}

// laneOrder is a random order of the lanes that the processes work on: those that have rows, or all.
func (s *simulation) laneOrder(order []int) []int {
	if s.wide {
		return append(order, s.rnd.Perm(Lanes)...)
	}
	order = append(order, simLanes[:s.lanes]...)
	s.rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

func (s *simulation) tracef(format string, args ...any) {
	if s.tracing {
		s.trace = append(s.trace, fmt.Sprintf("%6d  ", s.db.clock)+fmt.Sprintf(format, args...))
	}
}
