package claim

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	schedules = flag.Uint64("claim.schedules", defaultSchedules, "schedules that the simulation plays")
	firstSeed = flag.Uint64("claim.first", 1, "seed of the simulation's first schedule; the next ones follow")
	replay    = flag.Uint64("claim.seed", 0, "plays only the schedule of this seed, and prints it")
)

// The claim's bookkeeping, the real Book and Plan, is driven through random schedules against a small model of PostgreSQL.
// Nothing may be lost, stranded or delivered out of order, in any of them. No claim scans from zero: the floors have to be right.
func TestSimulation(t *testing.T) {
	if *replay != 0 {
		s := newSimulation()
		s.tracing = true
		failure := s.run(*replay)
		t.Log("\n" + strings.Join(s.trace, "\n"))
		if failure != "" {
			t.Fatal(failure)
		}
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // schedules leave little behind, and much of it
	var next, lowest atomic.Uint64
	lowest.Store(math.MaxUint64)
	var mu sync.Mutex
	var failure string // of the lowest seed that failed
	var situations [situationCount]int
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			s := newSimulation()
			for n := next.Add(1) - 1; n < *schedules && *firstSeed+n < lowest.Load(); n = next.Add(1) - 1 {
				if text := s.run(*firstSeed + n); text != "" {
					mu.Lock()
					if seed := *firstSeed + n; seed < lowest.Load() {
						lowest.Store(seed)
						failure = text
					}
					mu.Unlock()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for i, n := range s.situations {
				situations[i] += n
			}
		})
	}
	group.Wait()
	if failure != "" {
		t.Fatalf("%s\nreplay with: go test ./internal/claim -run '^TestSimulation$' -v -claim.seed=%d", failure, lowest.Load())
	}
	var table strings.Builder
	for i, n := range situations {
		fmt.Fprintf(&table, "\n%10d  %s", n, situationNames[i])
		if n == 0 && *schedules >= 20_000 {
			t.Errorf("no schedule has brought about: %s", situationNames[i])
		}
	}
	t.Logf("%d schedules:%s", *schedules, table.String())
}
