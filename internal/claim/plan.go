package claim

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// Verdict is what became of a row that a plan gave to the publisher.
type Verdict int8

// The verdicts. The zero value is right for a row whose publish was never started.
const (
	Untouched Verdict = iota // not published, or failed without being charged: it stays as it is
	Acked                    // the broker acknowledged it
	Failed                   // charged: it waits for its next attempt
	Dead                     // permanent, or out of attempts
)

// Outcome is a verdict with what goes with it.
type Outcome struct {
	Verdict Verdict
	Delay   float64 // seconds until the next attempt, when Failed
	Error   string  // when Failed or Dead
	Charged int     // attempts to add, when Dead
	Alone   bool    // when Dead: its key goes on, whatever the policy
}

// Plan decides what may be published of the rows of one claim, and, once it is known what became of each, how they are
// settled. It does no I/O. Rows are worked through in the order of their ids; what happens to one decides over the later
// ones of its key, and never over another key's. Unkeyed rows hold, park and stop nothing.
type Plan struct {
	Rows []Row

	key        []int           // number of each row's key; every unkeyed row has one of its own
	keys       int             // so many
	allowed    int             // rows a lane and scan
	quarantine bool            // a dead letter takes its key along
	lateCut    map[int16]int64 // lanes with a cut look-up of late rows: only rows up to this id may go
}

// NewPlan takes the rows of a claim and its row limit.
func NewPlan(rows []Row, allowed int, quarantine bool) *Plan {
	p := &Plan{Rows: byID(rows), key: make([]int, len(rows)), allowed: allowed, quarantine: quarantine}
	p.numberKeys()
	for _, s := range p.lateScans() {
		if s.rows >= allowed {
			if p.lateCut == nil {
				p.lateCut = map[int16]int64{}
			}
			if cut, ok := p.lateCut[s.lane]; !ok || s.top < cut {
				p.lateCut[s.lane] = s.top
			}
		}
	}
	return p
}

// byID sorts rows in place, moving each but once: they are large.
func byID(rows []Row) []Row {
	type place struct {
		id   int64
		from int
	}
	places := make([]place, len(rows))
	for i := range rows {
		places[i] = place{rows[i].ID, i}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.id, b.id) })
	for i := range places { // round each cycle of rows that take one another's place
		first, to := rows[i], i
		for places[to].from != i {
			from := places[to].from
			rows[to], places[to].from = rows[from], to
			to = from
		}
		rows[to], places[to].from = first, to
	}
	return rows
}

func (p *Plan) numberKeys() {
	numbers := make(map[string]int, len(p.Rows))
	for i := range p.Rows {
		key := p.Rows[i].Key
		n, ok := numbers[key]
		if !ok || key == "" {
			n = p.keys
			numbers[key] = n
			p.keys++
		}
		p.key[i] = n
	}
}

// step is what may happen to a row before its publish.
type step int8

const (
	leave  step = iota // as it is
	park               // behind a failed row of its key
	follow             // its key into quarantine
	send
)

// keyState is what earlier rows of a key in this claim mean for the later ones.
type keyState struct {
	left        bool // one stays as it is, so all later ones do
	parked      bool // one failed or was parked, so all later ones are parked
	quarantined bool
	holding     int // holding rows met so far
}

func (p *Plan) step(r *Row, k *keyState) step {
	keyed := r.Key != ""
	held := k.holding
	if r.Holds {
		k.holding++
	}
	cut, isCut := p.lateCut[r.Lane]
	switch {
	case r.Locked, r.Over, keyed && k.left, isCut && r.Kind != Due && r.ID > cut:
		k.left = keyed
		return leave
	case keyed && (r.Quarantined || k.quarantined):
		return follow
	case keyed && (k.parked || behind(r, held)):
		k.parked = true
		return park
	}
	return send
}

// behind says whether a holding row that is not in this claim comes first: a holding row may go only if the key's holding
// rows before it are all in the claim, held of them so far; any other row only if none holds before it.
func behind(r *Row, held int) bool {
	if r.Holds {
		return held >= len(r.Heads) || r.Heads[held] != r.ID
	}
	return len(r.Heads) > 0 && r.Heads[0] < r.ID
}

// Groups gives the rows to publish, as indexes into Rows: one group a key, in order; an unkeyed row is a group of its own.
// Groups may be published concurrently. Within one, the first that is not acknowledged ends it.
func (p *Plan) Groups() [][]int {
	var groups [][]int
	backing := make([]int, 0, len(p.Rows))                         // of the groups of one
	states, place := make([]keyState, p.keys), make([]int, p.keys) // place: of the key's group, plus one
	for i, key := range p.key {
		if p.step(&p.Rows[i], &states[key]) != send {
			continue
		}
		if n := place[key]; n > 0 {
			groups[n-1] = append(groups[n-1], i)
			continue
		}
		place[key] = len(groups) + 1
		backing = append(backing, i)
		groups = append(groups, backing[len(backing)-1:len(backing):len(backing)])
	}
	return groups
}

// Settlement is what one claim changes, and what it may remember once that is committed.
type Settlement struct {
	Done []pgtype.TID

	Retry      []pgtype.TID
	RetryDelay []float64
	RetryError []string

	Park []pgtype.TID

	Bury        []pgtype.TID
	BuryError   []*string // nil: the error it has
	BuryCharged []int32
	BuryHolds   []bool
	BuryTail    []bool
	BuryRow     []int // index into the plan's rows

	// By key, after those above.
	ReparkKeys  []string // failed again: what was released behind the id is parked again
	ReparkAfter []int64
	Release     map[int16][]string // a holding row went: the next ones may, by lane

	Lanes []LaneFacts

	Left    int  // rows that stay as they are
	Over    bool // some of them for the byte budget
	Blocked bool // in some lane as many stay as the claim looked at: it has not seen what is behind them
}

// Settle works through the rows again, now with the outcome of each.
func (p *Plan) Settle(outcomes []Outcome) *Settlement {
	s := &Settlement{Release: map[int16][]string{}}
	states := make([]keyState, p.keys)
	failed := map[string]int64{}
	release := map[string]int16{}
	left := make([]bool, len(p.Rows))
	for i := range p.Rows {
		r, k := &p.Rows[i], &states[p.key[i]]
		keyed := r.Key != ""
		switch p.step(r, k) {
		case leave:
			left[i] = true
		case park:
			s.Park = append(s.Park, r.TID)
		case follow:
			s.bury(r, i, nil, 0, true, true)
			if r.Holds {
				release[r.Key] = r.Lane
			}
		case send:
			switch o := &outcomes[i]; o.Verdict {
			case Untouched:
				left[i] = true
				k.left = keyed
			case Acked:
				s.Done = append(s.Done, r.TID)
				if r.Holds {
					release[r.Key] = r.Lane
				}
			case Failed:
				s.Retry = append(s.Retry, r.TID)
				s.RetryDelay = append(s.RetryDelay, o.Delay)
				s.RetryError = append(s.RetryError, o.Error)
				if keyed {
					k.parked = true
					failed[r.Key] = r.ID
				}
			case Dead:
				k.quarantined = keyed && p.quarantine && !o.Alone
				s.bury(r, i, &o.Error, o.Charged, k.quarantined, false)
				if r.Holds {
					release[r.Key] = r.Lane
				}
			}
		}
	}
	for key, id := range failed {
		s.ReparkKeys, s.ReparkAfter = append(s.ReparkKeys, key), append(s.ReparkAfter, id)
	}
	for key, lane := range release {
		if _, ok := failed[key]; !ok {
			s.Release[lane] = append(s.Release[lane], key)
		}
	}
	s.Lanes = p.facts(left)
	s.countLeft(p, left)
	return s
}

func (s *Settlement) countLeft(p *Plan, left []bool) {
	var stay, moved [Lanes]int
	for i := range p.Rows {
		r := &p.Rows[i]
		s.Over = s.Over || r.Over
		if left[i] {
			s.Left++
			stay[r.Lane]++
		} else {
			moved[r.Lane]++
		}
	}
	for lane := range stay {
		s.Blocked = s.Blocked || stay[lane] > 0 && stay[lane] >= p.allowed && moved[lane] == 0
	}
}

func (s *Settlement) bury(r *Row, i int, cause *string, charged int, holds, tail bool) {
	s.Bury = append(s.Bury, r.TID)
	s.BuryError = append(s.BuryError, cause)
	s.BuryCharged = append(s.BuryCharged, int32(charged)) //nolint:gosec // 0 or 1
	s.BuryHolds = append(s.BuryHolds, holds)
	s.BuryTail = append(s.BuryTail, tail)
	s.BuryRow = append(s.BuryRow, i)
}
