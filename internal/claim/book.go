package claim

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// A floor waits for short transactions to end. Those that run for longer than longAge don't hold it back, if there are at
// most maxLong of them: the claim then looks their rows up by xid.
const (
	longAge = 200 * time.Millisecond
	maxLong = 16
)

// None is an id above every row's: nothing was left, or nothing was cut. nothing is one below: nothing was seen.
const (
	None    int64 = math.MaxInt64
	nothing int64 = math.MinInt64
)

// Book is what one process remembers of the lanes, so that claims need not scan from the beginning. It does no I/O; the
// package comment has the proof. Safe for concurrent use.
type Book struct {
	mu          sync.Mutex
	era         int
	incarnation string
	lanes       [Lanes]lane
	seen        map[uint64]time.Time        // running transactions, and since when they were seen running
	owed        map[int16]map[string]uint64 // keys by lane whose release came out short, with the number of the debt
	debts       uint64                      // so many have been noted
}

// lane has a proven floor, and at most one candidate for the next: once no transaction below horizon runs, nothing can
// be left below next that a claim did not see.
type lane struct {
	floor   int64
	next    int64
	horizon uint64 // 0: no candidate
	long    []long
}

// long is a transaction that may still bring rows below the floor. Those below from are settled.
type long struct {
	xid  uint64
	from int64
}

// NewBook returns an empty book: every floor is 0.
func NewBook() *Book {
	return &Book{seen: map[uint64]time.Time{}, owed: map[int16]map[string]uint64{}}
}

// View is the book as one claim uses it.
type View struct {
	era         int
	Incarnation string // "": nothing is remembered yet, any will do
	Lanes       []int16
	Floors      []int64
	Late        []LateRange
	Owed        map[int16][]string
	debts       uint64 // noted when the view was taken
}

// LateRange asks for the rows of a long transaction with Low <= id < High, once it has ended.
type LateRange struct {
	Lane      int16
	Xid       uint64
	Low, High int64
}

// View gives the lanes in the order asked for: a random one, so that workers spread. fromZero ignores the floors, which
// is always right, only slower.
func (b *Book) View(order []int, fromZero bool) View {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := View{era: b.era, Incarnation: b.incarnation, Lanes: make([]int16, len(order)), Floors: make([]int64, len(order)),
		Owed: map[int16][]string{}, debts: b.debts}
	for i, n := range order {
		id := int16(n) //nolint:gosec // below 64
		v.Lanes[i] = id
		for key := range b.owed[id] {
			v.Owed[id] = append(v.Owed[id], key)
		}
		if fromZero {
			continue
		}
		l := &b.lanes[n]
		v.Floors[i] = l.floor
		for _, t := range l.long {
			v.Late = append(v.Late, LateRange{Lane: id, Xid: t.xid, Low: t.from, High: l.floor})
		}
	}
	return v
}

// Facts are what one claim learned. They may be remembered only after its COMMIT is known to have succeeded.
type Facts struct {
	Incarnation string
	Probe       Snapshot // of the statement that chose the lanes
	Empty       []int16  // lanes in which that statement found nothing ready at or above the floor, and nothing late
	Drawn       int64    // the highest id drawn when it ran
	Own         uint64   // the claim's own xid, assigned after Drawn was read; 0: none
	Claim       Snapshot // of the statement that claimed; unused without Lanes
	Lanes       []LaneFacts
}

// LaneFacts are what a claim learned of a lane from which it saw rows.
type LaneFacts struct {
	Lane    int16
	Top     int64            // the ready scan was cut by its limit behind this id; None: it was complete
	Left    int64            // the lowest ready or late id that stays as it was; None: none
	LateCut bool             // the look-up of a long transaction was cut
	Late    map[uint64]int64 // of each long transaction that had ended: its rows below this id are settled
}

// Remember raises the floors that the facts prove. Claims may be remembered in any order: each rule compares the facts'
// own snapshots and xids with the book, and the view tells what the claim looked at.
func (b *Book) Remember(v View, f Facts, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.era != b.era || b.incarnation != "" && b.incarnation != f.Incarnation {
		return
	}
	b.incarnation = f.Incarnation
	b.observe(f.Probe, now)
	claimed := map[int16]bool{}
	for _, l := range f.Lanes {
		claimed[l.Lane] = true
		b.rememberLane(v, l, f, now)
	}
	for _, id := range f.Empty {
		if !claimed[id] {
			l := &b.lanes[id]
			l.settleLong(v.late(id), f.Probe, nil, None)
			b.raise(l, f.Probe, None, f.Drawn+1, f.Own, now)
		}
	}
}

func (b *Book) rememberLane(v View, lf LaneFacts, f Facts, now time.Time) {
	l := &b.lanes[lf.Lane]
	if lf.LateCut { // more late rows may be left: floor and list stay, only their places are noted
		l.settleLong(v.late(lf.Lane), f.Claim, lf.Late, nothing)
		return
	}
	seenTo := lf.Left // below it, the claim left nothing ready
	if lf.Top != None {
		seenTo = min(seenTo, lf.Top+1)
	}
	l.settleLong(v.late(lf.Lane), f.Claim, lf.Late, seenTo)
	b.raise(l, f.Claim, seenTo, f.Drawn+1, f.Own, now)
}

// raise turns the candidate into the floor if the snapshot saw all that can ever be below it, and makes a new one.
func (b *Book) raise(l *lane, snap Snapshot, seenTo, next int64, own uint64, now time.Time) {
	if floor := min(l.next, seenTo); l.horizon != 0 && floor > l.floor {
		if running, complete := snap.runningBelow(l.horizon); complete && b.allLong(running, now) {
			l.floor, l.horizon = floor, 0
			for _, xid := range running {
				if !slices.ContainsFunc(l.long, func(t long) bool { return t.xid == xid }) {
					l.long = append(l.long, long{xid: xid})
				}
			}
		}
	}
	if l.horizon == 0 && own != 0 && next > l.floor {
		l.next, l.horizon = next, own
	}
}

// settleLong strikes off the long transactions that have ended, were looked up by this claim, and have nothing ready
// below the present floor, which another worker may have raised since the view was taken.
func (l *lane) settleLong(looked []LateRange, snap Snapshot, settled map[uint64]int64, seenTo int64) {
	for _, r := range looked {
		if !snap.Ended(r.Xid) {
			continue
		}
		i := slices.IndexFunc(l.long, func(t long) bool { return t.xid == r.Xid })
		if i < 0 {
			continue
		}
		if seenTo >= l.floor {
			l.long = slices.Delete(l.long, i, i+1)
		} else if from, ok := settled[r.Xid]; ok {
			l.long[i].from = max(l.long[i].from, min(from, r.High)) // rows from High on were not looked up
		}
	}
}

func (b *Book) allLong(running []uint64, now time.Time) bool {
	if len(running) > maxLong {
		return false
	}
	for _, xid := range running {
		if since, ok := b.seen[xid]; !ok || now.Sub(since) < longAge {
			return false
		}
	}
	return true
}

func (b *Book) observe(s Snapshot, now time.Time) {
	maps.DeleteFunc(b.seen, func(xid uint64, _ time.Time) bool { return s.Ended(xid) })
	for _, xid := range s.Running {
		if _, ok := b.seen[xid]; !ok {
			b.seen[xid] = now
		}
	}
}

func (v View) late(lane int16) (ranges []LateRange) {
	for _, r := range v.Late {
		if r.Lane == lane {
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// Lagging says whether an idle table has lanes whose floors could be proven higher, if only a claim had an xid.
func (b *Book) Lagging(drawn int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.lanes[:], func(l lane) bool { return l.horizon == 0 && l.floor <= drawn })
}

// Forget voids everything: a connection was lost, and with it perhaps the server; or the sequence lives another life.
func (b *Book) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.era++
	b.incarnation = ""
	b.lanes = [Lanes]lane{}
	clear(b.seen)
}

// Owe notes the keys of a lane whose release came out short, and strikes off those that were released. A debt noted since
// the view was taken stays: it may be younger than the release, for claims are remembered in any order.
func (b *Book) Owe(v View, lane int16, released, short []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := b.owed[lane]
	for _, key := range released {
		if debt, ok := keys[key]; ok && debt <= v.debts {
			delete(keys, key)
		}
	}
	for _, key := range short {
		if keys == nil {
			keys = map[string]uint64{}
			b.owed[lane] = keys
		}
		b.debts++
		keys[key] = b.debts
	}
	if len(keys) == 0 {
		delete(b.owed, lane)
	}
}
