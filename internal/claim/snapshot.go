package claim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Snapshot is what a statement could see, as pg_current_snapshot() prints it: "xmin:xmax:xip,...".
type Snapshot struct {
	Xmax    uint64
	Running []uint64 // below Xmax
}

// ParseSnapshot reads the server's text.
func ParseSnapshot(text string) (Snapshot, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return Snapshot{}, fmt.Errorf("outbox: %q is not a snapshot", text)
	}
	xmax, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return Snapshot{}, fmt.Errorf("outbox: %q is not a snapshot: %w", text, err)
	}
	s := Snapshot{Xmax: xmax}
	for _, field := range strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' }) {
		xid, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return Snapshot{}, fmt.Errorf("outbox: %q is not a snapshot: %w", text, err)
		}
		s.Running = append(s.Running, xid)
	}
	return s, nil
}

// Ended says whether a transaction had ended when the snapshot was taken. One at or above Xmax may not even have begun:
// a claim may be remembered after a younger one.
func (s Snapshot) Ended(xid uint64) bool {
	return xid < s.Xmax && !slices.Contains(s.Running, xid)
}

// runningBelow gives the transactions below horizon that were running, and whether the snapshot knows them all.
func (s Snapshot) runningBelow(horizon uint64) (running []uint64, complete bool) {
	for _, xid := range s.Running {
		if xid < horizon {
			running = append(running, xid)
		}
	}
	return running, s.Xmax >= horizon
}
