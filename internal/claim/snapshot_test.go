package claim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func snapshotOf(t *testing.T, text string) Snapshot {
	t.Helper()
	s, err := ParseSnapshot(text)
	require.NoError(t, err)
	return s
}

func TestSnapshotIsReadAsTheServerPrintsIt(t *testing.T) {
	require.Equal(t, Snapshot{Xmax: 20}, snapshotOf(t, "20:20:"))
	require.Equal(t, Snapshot{Xmax: 20, Running: []uint64{12}}, snapshotOf(t, "12:20:12"))
	require.Equal(t, Snapshot{Xmax: 1 << 40, Running: []uint64{7, 4294967296}}, snapshotOf(t, "7:1099511627776:7,4294967296"))
}

func TestWhatIsNoSnapshotIsAnError(t *testing.T) {
	for _, text := range []string{"", "20", "20:20", "20:x:", "20:20:12,x", "20:-1:", "20:20:12:13", "20:20:-12"} {
		_, err := ParseSnapshot(text)
		require.ErrorContains(t, err, "outbox: ", text)
		require.ErrorContains(t, err, "is not a snapshot", text)
	}
}

func TestOneAtOrAboveXmaxHasNotEnded(t *testing.T) {
	s := snapshotOf(t, "12:20:12,15")
	for xid, ended := range map[uint64]bool{3: true, 12: false, 13: true, 15: false, 19: true, 20: false, 21: false} {
		require.Equal(t, ended, s.Ended(xid), "xid %d", xid)
	}
}

func TestASnapshotKnowsNothingOfAHorizonAboveItsXmax(t *testing.T) {
	s := snapshotOf(t, "12:20:12,15")

	running, complete := s.runningBelow(20)
	require.True(t, complete)
	require.Equal(t, []uint64{12, 15}, running)

	running, complete = s.runningBelow(15)
	require.True(t, complete)
	require.Equal(t, []uint64{12}, running)

	_, complete = s.runningBelow(21)
	require.False(t, complete, "20 may be running, or may not have begun")
}
