package claim

import "math"

// mix is what a schedule is made of. Each has a theme, so that what is rare where everything happens is frequent somewhere.
type mix struct {
	theme                    simTheme
	lanes, keys              int
	wide                     bool // views of all 64 lanes
	processCount             int
	workerCount              int
	events                   int
	rows                     int // a claim's limit is at most this
	budgeted                 int // percent of claims with a budget in bytes
	oneLane                  int // percent of claims that take one lane only
	quarantine               bool
	unordered                bool // writers take no locks of aggregates: only rows of one transaction have an order
	fails, uncharged, poison int  // percent of publishes
	unkeyed, delayed         int  // percent of rows
	long                     int  // percent of transactions that stay open
	early                    int  // percent of transactions that have an xid before they write
	badCommits, lostAnswers  int  // percent of claims
	burst                    int  // percent of steps after which the same worker goes on
	slow                     int  // a worker that dawdles before it uses its view, and before it remembers; 0: none
	jump                     int  // percent of ticks that last longer than a long transaction must
	releaseLimit             int  // rows that a release moves; the real one's is 64
	releaseBound             int  // rows that it may move
	weights                  [eventCount]int
}

type simTheme int8

const (
	themeLong simTheme = iota // long transactions, small claims, several workers in one process
	themeHold                 // failures, parking, outsiders
	themeIdle                 // few writers, many empty passes
	themeAll
	themeCount
)

// The kinds of event.
const (
	eventWork = iota
	eventWrite
	eventTick
	eventOutsider
	eventCut
	eventDie
	eventCrash
	eventTruncate
	eventSweep
	eventSwarm
	eventClockBack
	eventCount
)

func (s *simulation) newMix() mix {
	n := s.rnd.IntN
	m := mix{
		theme: simTheme(n(int(themeCount))), lanes: 1 + n(3)*n(2), keys: 1 + n(len(simKeys)), wide: n(40) == 0,
		processCount: 1 + n(2)*n(2), events: 80 + n(120), rows: 1 + n(4), oneLane: 30, quarantine: n(2) == 0,
		unkeyed: 25, long: 5, early: 30, burst: 40 + n(55), jump: 10,
		releaseLimit: 1 + n(3), unordered: n(10) == 0,
	}
	if n(4) == 0 {
		m.rows = 4 + n(60)
	}
	if n(8) == 0 {
		m.releaseLimit = 64
	}
	m.workerCount = m.processCount + n(simWorkers-m.processCount+1)
	m.weights = [eventCount]int{eventWork: 560, eventWrite: 340, eventTick: 60}
	if n(3) == 0 {
		m.badCommits, m.lostAnswers = n(20), n(10)
		m.weights[eventCut] = n(8)
	}
	if n(4) == 0 {
		m.weights[eventDie] = n(10)
		m.weights[eventCrash] = n(6) * n(2)
	}
	if n(6) == 0 {
		m.weights[eventTruncate] = n(10)
	}
	if n(3) == 0 {
		m.slow = 1 + n(m.workerCount)
	}
	switch m.theme {
	case themeLong:
		m.lanes, m.processCount, m.workerCount = 1, 1, 2+n(2)
		m.long, m.jump, m.rows = 30+n(40), 50, 1+n(4)
		m.weights[eventSwarm] = 3 * n(2)
		m.weights[eventOutsider] = 10 * n(3)
		m.uncharged = 5 * n(3)
		m.events += 30
	case themeHold:
		m.fails, m.uncharged, m.poison = n(50), n(10), n(10)*n(2)
		m.delayed, m.unkeyed, m.keys = n(30), n(30), 1+n(2)
		m.weights[eventOutsider] = 20 + n(60)
		m.weights[eventClockBack] = 10 * n(2)
		m.weights[eventSweep] = n(10) * n(2)
		m.budgeted = 10 * n(2)
	case themeIdle:
		m.weights[eventWrite] = 40
		m.weights[eventTick] = 100
	case themeAll:
		m.fails, m.uncharged, m.poison, m.delayed = n(20), n(10), n(5), n(20)
		m.weights[eventOutsider] = n(40)
		m.weights[eventSwarm] = n(4)
		m.weights[eventClockBack] = n(8)
		m.weights[eventSweep] = n(4)
		m.long, m.jump, m.budgeted = 5+n(30), 30, n(15)
	}
	m.slow = min(m.slow, m.workerCount)
	m.releaseBound = m.releaseLimit
	return m
}

// limits of one claim.
func (s *simulation) limits() (rows, bytes, lanes int) {
	rows, bytes, lanes = 1+s.rnd.IntN(s.rows), math.MaxInt, 1+s.rnd.IntN(s.lanes)
	if s.calm {
		return rows, bytes, s.lanes
	}
	if s.percent(s.budgeted) {
		bytes = 1 + s.rnd.IntN(3)
	}
	if s.percent(s.oneLane) {
		lanes = 1
	}
	return rows, bytes, lanes
}

// verdict is what the broker, and the forwarder's judgement of its failures, make of one publish.
func (s *simulation) verdict() Outcome {
	if s.calm {
		return Outcome{Verdict: Acked}
	}
	switch n := s.rnd.IntN(100); {
	case n < s.fails:
		return Outcome{Verdict: Failed, Delay: float64(s.rnd.IntN(100)) / 1000, Error: "no"}
	case n < s.fails+s.uncharged:
		return Outcome{Verdict: Untouched}
	case n < s.fails+s.uncharged+s.poison:
		return Outcome{Verdict: Dead, Error: "never", Charged: 1, Alone: s.rnd.IntN(4) == 0}
	}
	return Outcome{Verdict: Acked}
}

func (s *simulation) commitFails() bool { return !s.calm && s.percent(s.badCommits) }

func (s *simulation) answerLost() bool { return !s.calm && s.percent(s.lostAnswers) }
