package claim

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestForgettingVoidsEverything(t *testing.T) {
	s := newScript(t)
	s.raisePast15()
	s.book.Forget()
	v := s.view()
	require.Empty(t, v.Incarnation, "any will do")
	require.Equal(t, []int64{0}, v.Floors)
	require.Empty(t, v.Late)
	s.claim(v, "15:30:15", 9, 30, all)
	s.claim(s.view(), "15:31:15", 9, 31, all)
	require.Zero(t, s.floor(), "15 has to be seen for long again")
}

func TestFactsFromBeforeAForgettingAreIgnored(t *testing.T) {
	s := newScript(t)
	before := s.view()
	s.book.Forget()
	s.claim(before, "20:20:", 9, 20, all)
	s.claim(before, "21:21:", 9, 21, all)
	require.Zero(t, s.floor())
	require.Empty(t, s.view().Incarnation)
}

func TestFactsOfAnotherIncarnationAreIgnored(t *testing.T) {
	s := newScript(t)
	fresh := s.view()
	s.claim(s.view(), "20:20:", 9, 20, all) // of incarnation a
	require.Equal(t, "a", s.view().Incarnation)
	probe := snapshotOf(t, "30:30:")
	s.book.Remember(fresh, Facts{Incarnation: "b", Probe: probe, Empty: []int16{testLane}, Own: 30}, s.now)
	require.Zero(t, s.floor(), "ids begin at 1 again in b")
	require.Equal(t, "a", s.view().Incarnation)
}

func TestADebtIsOwedUntilALaterReleasePaysIt(t *testing.T) {
	b := NewBook()
	view := func() View { return b.View([]int{int(testLane)}, false) }
	require.Empty(t, view().Owed)

	v := view()
	b.Owe(v, testLane, []string{"k", "l"}, []string{"k"})
	require.Equal(t, map[int16][]string{testLane: {"k"}}, view().Owed)

	b.Owe(view(), testLane, []string{"k"}, []string{"k"}) // short again
	b.Owe(view(), testLane+1, []string{"k"}, nil)         // another lane's
	require.Equal(t, map[int16][]string{testLane: {"k"}}, view().Owed)

	b.Owe(view(), testLane, []string{"k"}, nil)
	require.Empty(t, view().Owed)
	require.Empty(t, b.owed)
}

func TestAnOlderReleaseDoesNotPayAYoungerDebt(t *testing.T) {
	b := NewBook()
	older := b.View([]int{int(testLane)}, false)   // releases all of the key, and is remembered last
	younger := b.View([]int{int(testLane)}, false) // comes out short afterwards
	b.Owe(younger, testLane, []string{"k"}, []string{"k"})
	b.Owe(older, testLane, []string{"k"}, nil)
	require.Equal(t, []string{"k"}, b.View([]int{int(testLane)}, false).Owed[testLane])
}

func TestTheSweepsFindingsAreOwed(t *testing.T) {
	b := NewBook()
	b.Owe(View{}, testLane, nil, []string{"k"})
	v := b.View([]int{int(testLane)}, false)
	require.Equal(t, []string{"k"}, v.Owed[testLane])
	b.Forget() // it is the table that owes
	require.Equal(t, []string{"k"}, b.View([]int{int(testLane)}, false).Owed[testLane])
	b.Owe(v, testLane, []string{"k"}, nil)
	require.Empty(t, b.owed)
}

func TestABookServesManyWorkers(t *testing.T) {
	b := NewBook()
	var group sync.WaitGroup
	for n := range uint64(4) {
		group.Go(func() {
			for i := range uint64(200) {
				v := b.View([]int{int(testLane)}, false)
				own := 20 + 4*i + n
				facts := Facts{Incarnation: "a", Probe: Snapshot{Xmax: own}, Empty: []int16{testLane}, Drawn: 9, Own: own}
				b.Remember(v, facts, time.UnixMilli(int64(i)))
				b.Owe(v, testLane, []string{"k"}, []string{"l"})
				b.Lagging(9)
				if i == 100 {
					b.Forget()
				}
			}
		})
	}
	group.Wait()
	v := b.View([]int{int(testLane)}, false)
	require.Equal(t, []int64{10}, v.Floors)
	require.Equal(t, []string{"l"}, v.Owed[testLane])
}
