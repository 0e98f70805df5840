package claim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A schedule that failed can be looked at: its seed decides everything.
func TestASeedReplaysItsSchedule(t *testing.T) {
	a, b := newSimulation(), newSimulation()
	b.tracing = true
	for seed := range uint64(200) {
		require.Equal(t, a.run(seed), b.run(seed))
		require.Equal(t, a.db.rows, b.db.rows)
		require.Equal(t, a.db.running, b.db.running)
		require.Equal(t, a.situations, b.situations)
		require.NotEmpty(t, b.trace)
		b.trace = b.trace[:0]
	}
}
