package claim

import (
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

// Rows of one lane, as the claim returns them. Their places tell their ids.

func row(kind Kind, id int64, key string, heads ...int64) Row {
	return Row{Kind: kind, TID: pgtype.TID{BlockNumber: uint32(id), Valid: true}, ID: id, Lane: testLane, Key: key, Heads: heads}
}

func holding(id int64, key string, heads ...int64) Row {
	r := row(Due, id, key, heads...)
	r.Holds = true
	return r
}

func late(xid uint64, id int64, key string) Row {
	r := row(Late, id, key)
	r.Xid = xid
	return r
}

func lockedRow(r Row) Row {
	r.Locked = true
	return r
}

func quarantinedRow(r Row) Row {
	r.Quarantined = true
	return r
}

// groupIDs gives the ids that may be published.
func groupIDs(p *Plan) (ids [][]int64) {
	for _, group := range p.Groups() {
		var g []int64
		for _, i := range group {
			g = append(g, p.Rows[i].ID)
		}
		ids = append(ids, g)
	}
	return ids
}

// settleWith settles with these verdicts; what may go and is not mentioned was acknowledged, unless it comes behind one
// of its key that was not.
func settleWith(p *Plan, verdicts map[int64]Outcome) *Settlement {
	outcomes := make([]Outcome, len(p.Rows))
	for _, group := range p.Groups() {
		for _, i := range group {
			o, ok := verdicts[p.Rows[i].ID]
			if !ok {
				outcomes[i].Verdict = Acked
				continue
			}
			outcomes[i] = o
			if o.Verdict != Acked {
				break
			}
		}
	}
	return p.Settle(outcomes)
}

func idsOf(tids []pgtype.TID) (ids []int64) {
	for _, tid := range tids {
		ids = append(ids, int64(tid.BlockNumber))
	}
	return ids
}

var (
	failure   = Outcome{Verdict: Failed, Delay: 1.5, Error: "no"}
	untouched = Outcome{Verdict: Untouched}
	refused   = Outcome{Verdict: Dead, Error: "never", Charged: 1}
	alone     = Outcome{Verdict: Dead, Error: "never", Charged: 1, Alone: true}
)

func TestAKeysRowsAreAGroupInOrderAndAnUnkeyedRowIsOneAlone(t *testing.T) {
	p := NewPlan([]Row{row(Ready, 4, "b"), row(Ready, 3, "a"), row(Due, 5, "a"), row(Ready, 2, ""), row(Ready, 6, ""), late(15, 1, "a")}, 10, true)
	require.Equal(t, [][]int64{{1, 3, 5}, {2}, {4}, {6}}, groupIDs(p))
	s := settleWith(p, nil)
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6}, idsOf(s.Done))
	require.Empty(t, s.Release)
}

func TestAFailedRowParksTheRestOfItsKeyAndNoOther(t *testing.T) {
	p := NewPlan([]Row{row(Ready, 1, "a"), row(Ready, 2, "b"), row(Ready, 3, "a"), row(Due, 4, "a"), row(Ready, 5, "")}, 10, true)
	s := settleWith(p, map[int64]Outcome{1: failure})
	require.Equal(t, []int64{1}, idsOf(s.Retry))
	require.Equal(t, []float64{1.5}, s.RetryDelay)
	require.Equal(t, []string{"no"}, s.RetryError)
	require.Equal(t, []int64{3, 4}, idsOf(s.Park))
	require.Equal(t, []int64{2, 5}, idsOf(s.Done))
	require.Equal(t, []string{"a"}, s.ReparkKeys)
	require.Equal(t, []int64{1}, s.ReparkAfter)
	require.Empty(t, s.Release)
}

func TestAnUnkeyedRowHoldsParksAndStopsNothing(t *testing.T) {
	p := NewPlan([]Row{row(Ready, 1, ""), lockedRow(row(Ready, 2, "")), row(Ready, 3, ""), row(Due, 4, ""), row(Ready, 5, "")}, 10, true)
	s := settleWith(p, map[int64]Outcome{1: failure, 3: refused, 4: untouched})
	require.Equal(t, []int64{1}, idsOf(s.Retry))
	require.Equal(t, []int64{5}, idsOf(s.Done))
	require.Empty(t, s.Park)
	require.Empty(t, s.ReparkKeys)
	require.Equal(t, []int64{3}, idsOf(s.Bury))
	require.Equal(t, []bool{false}, s.BuryHolds)
	require.EqualValues(t, 2, s.Lanes[0].Left)
}

func TestNewcomersQueueUpBehindAHoldingRow(t *testing.T) {
	p := NewPlan([]Row{row(Ready, 5, "a", 3), row(Due, 6, "a", 3), row(Ready, 2, "a", 3), row(Ready, 7, "b", 8)}, 10, true)
	require.Equal(t, [][]int64{{2}, {7}}, groupIDs(p), "2 and 7 come before what holds")
	require.Equal(t, []int64{5, 6}, idsOf(settleWith(p, nil).Park))
}

func TestABlockedNewcomerStopsItsKey(t *testing.T) {
	p := NewPlan([]Row{holding(1, "a", 1, 3), row(Ready, 2, "a", 1, 3), holding(3, "a", 1, 3)}, 10, true)
	require.Equal(t, [][]int64{{1}}, groupIDs(p))
	s := settleWith(p, nil)
	require.Equal(t, []int64{2, 3}, idsOf(s.Park))
	require.Equal(t, map[int16][]string{testLane: {"a"}}, s.Release)
}

func TestAHoldingRowGoesOnlyBehindAllHoldingRowsBeforeIt(t *testing.T) {
	for name, c := range map[string]struct {
		rows   []Row
		groups [][]int64
		park   []int64
	}{
		"all here":          {[]Row{holding(1, "a", 1, 2, 3), holding(2, "a", 1, 2, 3)}, [][]int64{{1, 2}}, nil},
		"the first missing": {[]Row{holding(2, "a", 1, 2, 3), holding(3, "a", 1, 2, 3)}, nil, []int64{2, 3}},
		"one missing":       {[]Row{holding(1, "a", 1, 2, 3), holding(3, "a", 1, 2, 3)}, [][]int64{{1}}, []int64{3}},
		"more than listed":  {[]Row{holding(1, "a", 1), holding(2, "a", 1)}, [][]int64{{1}}, []int64{2}},
		"another key's":     {[]Row{holding(2, "a", 1, 2), holding(3, "b", 3)}, [][]int64{{3}}, []int64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPlan(c.rows, 10, true)
			require.Equal(t, c.groups, groupIDs(p))
			require.Equal(t, c.park, idsOf(settleWith(p, nil).Park))
		})
	}
}

func TestASettledHoldingRowReleasesItsKeyUnlessALaterOneFails(t *testing.T) {
	rows := func() []Row { return []Row{holding(1, "a", 1, 2), holding(2, "a", 1, 2)} }
	s := settleWith(NewPlan(rows(), 10, true), nil)
	require.Equal(t, map[int16][]string{testLane: {"a"}}, s.Release)

	s = settleWith(NewPlan(rows(), 10, true), map[int64]Outcome{2: failure})
	require.Equal(t, []int64{1}, idsOf(s.Done))
	require.Empty(t, s.Release)
	require.Equal(t, []string{"a"}, s.ReparkKeys)
	require.Equal(t, []int64{2}, s.ReparkAfter)
}

func TestALockedRowStaysAsItIsWithAllLaterOnesOfItsKey(t *testing.T) {
	p := NewPlan([]Row{row(Ready, 1, "a"), lockedRow(row(Ready, 2, "a")), row(Ready, 3, "a"), row(Due, 4, "a"), row(Ready, 5, "b")}, 10, true)
	require.Equal(t, [][]int64{{1}, {5}}, groupIDs(p))
	s := settleWith(p, nil)
	require.Equal(t, []int64{1, 5}, idsOf(s.Done))
	require.Empty(t, s.Park)
	require.EqualValues(t, 2, s.Lanes[0].Left)
}

func TestARowThatWasNotTriedStaysAsItIsWithAllLaterOnesOfItsKey(t *testing.T) {
	p := NewPlan([]Row{row(Ready, 1, "a"), row(Ready, 2, "a"), row(Ready, 3, "a"), row(Ready, 4, "b")}, 10, true)
	s := settleWith(p, map[int64]Outcome{2: untouched})
	require.Equal(t, []int64{1, 4}, idsOf(s.Done))
	require.Empty(t, s.Park)
	require.Empty(t, s.Retry)
	require.EqualValues(t, 2, s.Lanes[0].Left)

	s = settleWith(NewPlan([]Row{holding(1, "a", 1), row(Ready, 2, "a", 1)}, 10, true), map[int64]Outcome{1: untouched})
	require.Empty(t, s.Park, "not even parked")
	require.EqualValues(t, 2, s.Lanes[0].Left)
}

func TestADeadRowTakesItsKeyAlong(t *testing.T) {
	p := NewPlan([]Row{row(Ready, 1, "a"), row(Ready, 2, "a"), row(Ready, 3, "b")}, 10, true)
	s := settleWith(p, map[int64]Outcome{1: refused})
	require.Equal(t, []int64{1, 2}, idsOf(s.Bury))
	require.Equal(t, []int{0, 1}, s.BuryRow)
	require.Equal(t, "never", *s.BuryError[0])
	require.Nil(t, s.BuryError[1])
	require.Equal(t, []int32{1, 0}, s.BuryCharged)
	require.Equal(t, []bool{true, true}, s.BuryHolds)
	require.Equal(t, []bool{false, true}, s.BuryTail)
	require.Equal(t, []int64{3}, idsOf(s.Done))
	require.Empty(t, s.Release, "nothing is parked behind a row that never failed")
}

func TestADeadRowLetsItsKeyGoOnWhenAsked(t *testing.T) {
	for name, p := range map[string]*Plan{
		"by policy": NewPlan([]Row{holding(1, "a", 1), row(Ready, 2, "b")}, 10, false),
		"alone":     NewPlan([]Row{holding(1, "a", 1), row(Ready, 2, "b")}, 10, true),
	} {
		verdict := refused
		if name == "alone" {
			verdict = alone
		}
		s := settleWith(p, map[int64]Outcome{1: verdict})
		require.Equal(t, []int64{1}, idsOf(s.Bury), name)
		require.Equal(t, []bool{false}, s.BuryHolds, name)
		require.Equal(t, []bool{false}, s.BuryTail, name)
		require.Equal(t, map[int16][]string{testLane: {"a"}}, s.Release, name)
	}
	s := settleWith(NewPlan([]Row{row(Ready, 1, "a"), row(Ready, 2, "a")}, 10, false), map[int64]Outcome{1: refused})
	require.EqualValues(t, 2, s.Lanes[0].Left, "its group has ended: 2 was not tried")
	require.Empty(t, s.Park)
}

func TestRowsOfAQuarantinedKeyFollow(t *testing.T) {
	p := NewPlan([]Row{quarantinedRow(holding(3, "a", 3, 4)), quarantinedRow(row(Ready, 5, "a", 3, 4)), lockedRow(quarantinedRow(row(Ready, 6, "a"))), quarantinedRow(row(Ready, 7, "a"))}, 10, true)
	require.Empty(t, groupIDs(p))
	s := settleWith(p, nil)
	require.Equal(t, []int64{3, 5}, idsOf(s.Bury))
	require.Equal(t, []bool{true, true}, s.BuryTail)
	require.Equal(t, []bool{true, true}, s.BuryHolds)
	require.Equal(t, map[int16][]string{testLane: {"a"}}, s.Release, "4 may follow next")
	require.EqualValues(t, 6, s.Lanes[0].Left)
}

func TestADelayedRowThatFellDueTakesItsPlaceById(t *testing.T) {
	p := NewPlan([]Row{row(Due, 5, "a", 7), row(Ready, 3, "a", 7), holding(7, "a", 7), row(Due, 8, "a", 7)}, 10, true)
	require.Equal(t, [][]int64{{3, 5, 7}}, groupIDs(p))
	s := settleWith(p, map[int64]Outcome{5: failure})
	require.Equal(t, []int64{7, 8}, idsOf(s.Park))
	require.Equal(t, []int64{5}, s.ReparkAfter)
}

func TestRowsAreSortedWhateverTheirOrder(t *testing.T) {
	for n := range 60 {
		rows := make([]Row, n)
		for i, id := range rand.Perm(n) {
			rows[i] = row(Ready, int64(id), "a")
		}
		for i, r := range NewPlan(rows, 100, false).Rows {
			require.Equal(t, row(Ready, int64(i), "a"), r)
		}
	}
}
