package claim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// raisePast15 brings the lane's floor to 10 while transaction 15, which has been running for long enough, may have rows below.
func (s *script) raisePast15() {
	s.Helper()
	s.claim(s.view(), "15:20:15", 9, 20, all)
	s.claim(s.view(), "15:21:15", 9, 21, all)
	require.Zero(s, s.floor())
	s.wait(longAge)
	s.claim(s.view(), "15:22:15", 9, 22, all)
	require.EqualValues(s, 10, s.floor())
	require.Equal(s, []LateRange{{Lane: testLane, Xid: 15, Low: 0, High: 10}}, s.late())
}

// raiseTo20 proves a higher floor, while 15 still runs, with a view of its own.
func (s *script) raiseTo20() {
	s.Helper()
	s.claim(s.view(), "15:30:15", 19, 30, all)
	s.claim(s.view(), "15:31:15", 19, 31, all)
	require.EqualValues(s, 20, s.floor())
}

func TestALongTransactionDoesNotKeepTheFloorDown(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	s.claim(s.view(), "15:23:15", 9, 23, all)
	require.Len(t, s.late(), 1, "it still runs")
	s.claim(s.view(), "24:24:", 9, 24, LaneFacts{Top: None, Left: None, Late: map[uint64]int64{15: None}})
	require.Empty(t, s.late(), "it was looked up")
	require.EqualValues(t, 10, s.floor())
}

func TestATransactionIsLongOnlyAfterAWhile(t *testing.T) {
	s := newScript(t)
	s.claim(s.view(), "15:20:15", 9, 20, all)
	s.wait(longAge - 1)
	s.claim(s.view(), "15:21:15", 9, 21, all)
	require.Zero(t, s.floor())
	s.claim(s.view(), "15:22:15,18", 9, 22, all)
	s.wait(1)
	s.claim(s.view(), "15:23:15,18", 9, 23, all)
	require.Zero(t, s.floor(), "18 has not been seen for long")
	s.claim(s.view(), "15:24:15", 9, 24, all)
	require.EqualValues(t, 10, s.floor())
}

func TestMoreThanSixteenLongTransactionsKeepTheFloorDown(t *testing.T) {
	running := func(n int) string {
		var xids []string
		for i := range n {
			xids = append(xids, fmt.Sprint(100+i))
		}
		return "100:200:" + strings.Join(xids, ",")
	}
	s := newScript(t)
	s.claim(s.view(), running(maxLong+1), 9, 200, all)
	s.wait(2 * longAge)
	s.claim(s.view(), running(maxLong+1), 9, 201, all)
	require.Zero(t, s.floor())
	s.claim(s.view(), running(maxLong), 9, 202, all)
	require.EqualValues(t, 10, s.floor())
	require.Len(t, s.late(), maxLong)
}

func TestALongTransactionThatHasEndedStaysListedUntilItWasLookedUp(t *testing.T) {
	s := newScript(t)
	unaware := s.view() // before it was listed: looks nothing up
	s.raisePast15()
	s.claim(unaware, "25:25:", 9, 25, all)
	require.Len(t, s.late(), 1)
	s.empty(unaware, "25:25:", 9, 0)
	require.Len(t, s.late(), 1)
	s.empty(s.view(), "25:25:", 9, 0)
	require.Empty(t, s.late(), "a probe that finds no late row is as good as a claim")
}

func TestTwoWorkersMayStrikeOffTheSame(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	v, w := s.view(), s.view()
	s.empty(v, "25:25:", 9, 0)
	s.empty(w, "25:25:", 9, 0)
	require.Empty(t, s.late())
	require.EqualValues(t, 10, s.floor())
}

func TestAnOlderClaimDoesNotStrikeOffWhatItSawRunning(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	older := s.view()
	s.claim(s.view(), "24:24:", 9, 24, LaneFacts{Top: None, Left: 4, Late: map[uint64]int64{15: 4}})
	require.Equal(t, []LateRange{{Lane: testLane, Xid: 15, Low: 4, High: 10}}, s.late())
	s.claim(older, "15:23:15", 9, 23, all)
	require.Equal(t, []LateRange{{Lane: testLane, Xid: 15, Low: 4, High: 10}}, s.late())
}

func TestACutLookUpKeepsFloorAndList(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	s.claim(s.view(), "24:24:", 30, 24, LaneFacts{Top: None, Left: None, LateCut: true, Late: map[uint64]int64{15: 4}})
	require.Equal(t, []LateRange{{Lane: testLane, Xid: 15, Low: 4, High: 10}}, s.late(), "its rows below 4 are not looked up again")
	s.claim(s.view(), "25:25:", 30, 25, LaneFacts{Top: None, Left: None, LateCut: true, Late: map[uint64]int64{15: 7}})
	require.EqualValues(t, 10, s.floor())
	require.Equal(t, []LateRange{{Lane: testLane, Xid: 15, Low: 7, High: 10}}, s.late())
}

func TestAnOlderLookUpDoesNotPutThePlaceBack(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	older := s.view()
	s.claim(s.view(), "25:25:", 30, 25, LaneFacts{Top: None, Left: None, LateCut: true, Late: map[uint64]int64{15: 7}})
	s.claim(older, "24:24:", 30, 24, LaneFacts{Top: None, Left: None, LateCut: true, Late: map[uint64]int64{15: 4}})
	require.EqualValues(t, 7, s.late()[0].Low)
}

func TestACutLookUpLeavesWhatLiesAboveItsViewsFloor(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	older := s.view()
	s.raiseTo20()
	s.claim(older, "32:32:", 19, 32, LaneFacts{Top: None, Left: None, LateCut: true, Late: map[uint64]int64{15: None, 16: 3}})
	require.Equal(t, []LateRange{{Lane: testLane, Xid: 15, Low: 10, High: 20}}, s.late(), "from 10 on nobody has looked")
}

func TestAScanCutBelowAFloorRaisedSinceItsViewKeepsTheList(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	older := s.view()
	s.raiseTo20()
	s.claim(older, "32:32:", 19, 32, LaneFacts{Top: 14, Left: None, Late: map[uint64]int64{15: None}})
	require.Equal(t, []LateRange{{Lane: testLane, Xid: 15, Low: 10, High: 20}}, s.late())
	s.claim(older, "33:33:", 19, 33, LaneFacts{Top: 19, Left: None, Late: map[uint64]int64{15: None}})
	require.Empty(t, s.late(), "this one has seen all below 20")
	require.EqualValues(t, 20, s.floor())
}

func TestALateRowLeftReadyKeepsTheList(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	s.claim(s.view(), "24:24:", 9, 24, LaneFacts{Top: None, Left: 6, Late: map[uint64]int64{15: 6}})
	require.EqualValues(t, 10, s.floor())
	require.Equal(t, []LateRange{{Lane: testLane, Xid: 15, Low: 6, High: 10}}, s.late())
}

func TestAReadyRowLeftBelowAFloorRaisedSinceKeepsTheList(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	older := s.view()
	s.raiseTo20()
	s.claim(older, "32:32:", 19, 32, LaneFacts{Top: None, Left: 12, Late: map[uint64]int64{15: None}}) // of 15, and locked
	require.Equal(t, []LateRange{{Lane: testLane, Xid: 15, Low: 10, High: 20}}, s.late())
}

func TestALongTransactionIsListedOnce(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	s.raiseTo20()
	require.Len(t, s.late(), 1)
}
