package claim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// factsOf are the facts of a claim whose publishes all succeeded but those mentioned.
func factsOf(rows []Row, allowed int, verdicts map[int64]Outcome) []LaneFacts {
	return settleWith(NewPlan(rows, allowed, true), verdicts).Lanes
}

func TestAScanThatFillsItsLimitIsCut(t *testing.T) {
	rows := []Row{row(Ready, 4, ""), row(Ready, 6, ""), row(Due, 9, "")}
	require.Equal(t, []LaneFacts{{Lane: testLane, Top: None, Left: None}}, factsOf(rows, 3, nil))
	require.Equal(t, []LaneFacts{{Lane: testLane, Top: 6, Left: None}}, factsOf(rows, 2, nil))
}

func TestEachLaneHasItsOwnFacts(t *testing.T) {
	other := row(Ready, 5, "")
	other.Lane = testLane + 1
	require.Equal(t, []LaneFacts{{Lane: testLane, Top: None, Left: 4}, {Lane: testLane + 1, Top: None, Left: None}},
		factsOf([]Row{other, lockedRow(row(Ready, 4, ""))}, 2, nil))
	require.Equal(t, []LaneFacts{{Lane: testLane, Top: 4, Left: 4}, {Lane: testLane + 1, Top: 5, Left: None}},
		factsOf([]Row{other, lockedRow(row(Ready, 4, ""))}, 1, nil))
}

func TestOnlyRowsThatStayReadyCountAsLeft(t *testing.T) {
	verdicts := map[int64]Outcome{3: failure, 5: refused, 6: untouched, 7: untouched}
	rows := []Row{row(Ready, 3, "a"), row(Ready, 4, "a"), row(Ready, 5, ""), row(Due, 6, ""), row(Ready, 7, "")}
	require.Equal(t, []LaneFacts{{Lane: testLane, Top: None, Left: 7}}, factsOf(rows, 10, verdicts))
}

func TestALateRowThatStaysReadyIsLeftAndLookedUpAgain(t *testing.T) {
	rows := []Row{late(15, 2, ""), lockedRow(late(15, 4, "")), late(15, 6, ""), late(16, 5, ""), row(Ready, 12, "")}
	require.Equal(t, []LaneFacts{{Lane: testLane, Top: None, Left: 4, Late: map[uint64]int64{15: 4, 16: None}}}, factsOf(rows, 10, nil))
}

func TestALateLookUpThatFillsItsLimitIsCut(t *testing.T) {
	rows := []Row{late(15, 2, "a"), late(15, 4, "a"), late(16, 3, ""), late(17, 1, ""), late(17, 8, ""), row(Ready, 12, "a"), row(Due, 13, "b"), row(Ready, 14, "")}
	p := NewPlan(rows, 2, true)
	require.Equal(t, [][]int64{{1}, {2, 4}, {3}, {13}}, groupIDs(p), "up to the lowest cut, which is 4, and what is due")
	s := settleWith(p, nil)
	require.Equal(t, []int64{1, 2, 3, 4, 13}, idsOf(s.Done))
	require.Equal(t, []LaneFacts{{Lane: testLane, Top: 14, Left: 8, LateCut: true, Late: map[uint64]int64{15: 5, 16: None, 17: 8}}}, s.Lanes)
}

func TestACutLookUpCutsItsOwnLaneOnly(t *testing.T) {
	other := row(Ready, 9, "")
	other.Lane = testLane + 1
	p := NewPlan([]Row{late(15, 2, ""), row(Ready, 8, ""), other}, 1, true)
	require.Equal(t, [][]int64{{2}, {9}}, groupIDs(p))
}

func TestALateRowBehindAFailedOneIsParked(t *testing.T) {
	behind := late(15, 6, "a")
	behind.Heads = []int64{3}
	s := settleWith(NewPlan([]Row{behind}, 10, true), nil)
	require.Equal(t, []int64{6}, idsOf(s.Park))
	require.Equal(t, []LaneFacts{{Lane: testLane, Top: None, Left: None, Late: map[uint64]int64{15: None}}}, s.Lanes)
}

func TestAClaimWithoutRowsHasNoFacts(t *testing.T) {
	s := settleWith(NewPlan(nil, 1, true), nil)
	require.Empty(t, s.Lanes)
	require.Empty(t, s.Release)
}
