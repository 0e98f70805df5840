//go:build unix && !linux

package scenario

import (
	"fmt"
	"runtime"
	"syscall"
)

// peakMemory is this process's largest resident set so far. macOS counts in bytes, the BSDs in KiB.
func peakMemory() (int64, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("peak memory: %w", err)
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss), nil
	}
	return int64(usage.Maxrss) << 10, nil
}
