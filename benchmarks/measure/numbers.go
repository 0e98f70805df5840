package measure

import (
	"cmp"
	"math"
	"slices"
)

// Number is what a measurement can be.
type Number interface{ ~int64 | ~float64 }

// Percentile gives the smallest value that p per cent of the values don't exceed (the nearest rank), 0 for no values.
func Percentile[N Number](values []N, p float64) N {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(values), cmp.Compare[N])
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Alternate gives the order of count sides in a round: forwards in even rounds, backwards in odd ones, so that no side
// always has the machine first.
func Alternate(count, round int) []int {
	order := make([]int, count)
	for i := range order {
		order[i] = i
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}
