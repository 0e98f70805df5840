package measure_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[99-i] = float64(i + 1)
	}
	for p, want := range map[float64]float64{0: 1, 1: 1, 50: 50, 50.5: 51, 99: 99, 100: 100} {
		require.InDelta(t, want, measure.Percentile(hundred, p), 0, "p%g", p)
	}
	require.InDelta(t, 100, hundred[0], 0, "the values stay as they are")
	require.Equal(t, 7*time.Second, measure.Percentile([]time.Duration{7 * time.Second}, 99))
	require.Zero(t, measure.Percentile([]time.Duration(nil), 50))
}

func TestAlternateTurnsEverySecondRound(t *testing.T) {
	require.Equal(t, []int{0, 1, 2}, measure.Alternate(3, 0))
	require.Equal(t, []int{2, 1, 0}, measure.Alternate(3, 1))
	require.Equal(t, []int{0, 1, 2}, measure.Alternate(3, 2))
}
