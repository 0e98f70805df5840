package claim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script drives a book through claims of one lane. Times are milliseconds.
type script struct {
	*testing.T
	book *Book
	now  time.Time
}

const testLane = int16(7)

func newScript(t *testing.T) *script {
	t.Helper()
	return &script{T: t, book: NewBook(), now: time.UnixMilli(1_000_000)}
}

func (s *script) view() View { return s.book.View([]int{int(testLane)}, false) }

func (s *script) floor() int64 { return s.view().Floors[0] }

func (s *script) late() []LateRange { return s.view().Late }

func (s *script) wait(d time.Duration) { s.now = s.now.Add(d) }

// empty remembers a probe that found nothing in the lane.
func (s *script) empty(v View, snapshot string, drawn int64, own uint64) {
	s.Helper()
	s.book.Remember(v, Facts{Incarnation: "a", Probe: snapshotOf(s.T, snapshot), Empty: []int16{testLane}, Drawn: drawn, Own: own}, s.now)
}

// claim remembers a claim; both its statements have the same snapshot.
func (s *script) claim(v View, snapshot string, drawn int64, own uint64, facts LaneFacts) {
	s.Helper()
	facts.Lane = testLane
	probe := snapshotOf(s.T, snapshot)
	s.book.Remember(v, Facts{Incarnation: "a", Probe: probe, Drawn: drawn, Own: own, Claim: probe, Lanes: []LaneFacts{facts}}, s.now)
}

// all is a lane that was claimed completely.
var all = LaneFacts{Top: None, Left: None}

func TestAFloorIsProvenByTheNextClaim(t *testing.T) {
	s := newScript(t)
	s.claim(s.view(), "20:20:", 9, 20, all)
	require.Zero(t, s.floor(), "a lower id may commit later")
	s.claim(s.view(), "21:21:", 12, 21, all)
	require.EqualValues(t, 10, s.floor())
	s.claim(s.view(), "22:22:", 14, 22, all)
	require.EqualValues(t, 13, s.floor())
}

func TestALowerIDThatCommitsLateKeepsTheFloorDown(t *testing.T) {
	s := newScript(t)
	s.claim(s.view(), "15:20:15", 9, 20, all) // 15 has drawn an id below 10, perhaps
	s.claim(s.view(), "15:21:15", 9, 21, all)
	require.Zero(t, s.floor())
	s.claim(s.view(), "22:22:", 9, 22, all)
	require.EqualValues(t, 10, s.floor())
}

func TestASnapshotOlderThanTheHorizonProvesNothing(t *testing.T) {
	s := newScript(t)
	older := s.view()
	s.claim(s.view(), "20:20:", 9, 21, all)
	s.claim(older, "20:20:", 9, 0, all) // 20 may be running
	require.Zero(t, s.floor())
	s.claim(older, "21:21:", 9, 0, all) // at the horizon, nothing below can have been overlooked
	require.EqualValues(t, 10, s.floor())
}

func TestClaimsAreRememberedInEitherOrder(t *testing.T) {
	first, second := LaneFacts{Top: None, Left: 5}, all // the first left a row ready, the second claimed it
	for _, reversed := range []bool{false, true} {
		s := newScript(t)
		s.claim(s.view(), "20:20:", 9, 20, all)
		v, w := s.view(), s.view()
		if reversed {
			s.claim(w, "22:22:", 9, 22, second)
			s.claim(v, "21:21:", 9, 21, first)
		} else {
			s.claim(v, "21:21:", 9, 21, first)
			require.EqualValues(t, 5, s.floor())
			s.claim(w, "22:22:", 9, 22, second)
		}
		require.EqualValues(t, 10, s.floor())
	}
}

func TestTheFloorStaysBelowWhatACutScanHasNotSeen(t *testing.T) {
	s := newScript(t)
	s.claim(s.view(), "20:20:", 9, 20, LaneFacts{Top: 4, Left: None})
	require.Zero(t, s.floor())
	s.claim(s.view(), "21:21:", 12, 21, LaneFacts{Top: 8, Left: None})
	require.EqualValues(t, 9, s.floor(), "the second has seen no further")
	s.claim(s.view(), "22:22:", 15, 22, LaneFacts{Top: 14, Left: None})
	require.EqualValues(t, 13, s.floor(), "what was drawn after the second may still commit")
}

func TestTheFloorStaysAtWhatWasLeftReady(t *testing.T) {
	s := newScript(t)
	s.claim(s.view(), "20:20:", 9, 20, all)
	s.claim(s.view(), "21:21:", 9, 21, LaneFacts{Top: None, Left: 3})
	require.EqualValues(t, 3, s.floor())
	for xid := uint64(22); xid < 25; xid++ {
		s.claim(s.view(), "25:25:", 9, xid, LaneFacts{Top: None, Left: 3})
		require.EqualValues(t, 3, s.floor())
	}
}

func TestAnEmptyProbeRaisesTheFloor(t *testing.T) {
	s := newScript(t)
	s.claim(s.view(), "20:20:", 9, 20, all)
	s.empty(s.view(), "15:21:15", 9, 0)
	require.Zero(t, s.floor())
	s.empty(s.view(), "21:21:", 9, 0)
	require.EqualValues(t, 10, s.floor())
}

func TestAnEmptyProbeOlderThanAClaimStillProvesItsOwn(t *testing.T) {
	s := newScript(t)
	s.claim(s.view(), "20:20:", 9, 20, all)
	probed, claimed := s.view(), s.view()
	s.claim(claimed, "15:25:15", 12, 25, LaneFacts{Top: None, Left: 11}) // 15 has begun before 20, and commits row 8
	require.Zero(t, s.floor())
	s.empty(probed, "20:20:", 9, 0)
	require.EqualValues(t, 10, s.floor())
}

func TestOneClaimWithAnXidIsEnoughForAnIdleTable(t *testing.T) {
	s := newScript(t)
	require.True(t, s.book.Lagging(0))
	lanes := make([]int, Lanes)
	empty := make([]int16, Lanes)
	for n := range lanes {
		lanes[n], empty[n] = n, int16(n)
	}
	probe := func(snapshot string, own uint64) {
		s.book.Remember(s.book.View(lanes, false), Facts{Incarnation: "a", Probe: snapshotOf(t, snapshot), Empty: empty, Drawn: 9, Own: own}, s.now)
	}
	probe("20:20:", 0)
	require.True(t, s.book.Lagging(9), "without an xid there is no horizon")
	probe("20:20:", 20)
	require.False(t, s.book.Lagging(9), "the next probe proves the floors")
	probe("21:21:", 0)
	require.EqualValues(t, 10, s.floor())
	require.False(t, s.book.Lagging(9))
	require.True(t, s.book.Lagging(10))
}

func TestBeforeTheFirstIDIsDrawnTheFloorIsTheFirst(t *testing.T) {
	s := newScript(t)
	s.empty(s.view(), "20:20:", 0, 20)
	s.empty(s.view(), "21:21:", 0, 21)
	require.EqualValues(t, 1, s.floor())
}

func TestAViewFromZeroIgnoresFloorsAndLists(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	v := s.book.View([]int{3, int(testLane)}, true)
	require.Equal(t, []int16{3, testLane}, v.Lanes)
	require.Equal(t, []int64{0, 0}, v.Floors)
	require.Empty(t, v.Late)
}
