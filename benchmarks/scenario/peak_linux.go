package scenario

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// peakMemory is this process's own high-water mark. Not getrusage's: on Linux a child starts with its parent's.
func peakMemory() (int64, error) {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("peak memory: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), "VmHWM:"); found {
			var kibibytes int64
			if _, err := fmt.Sscanf(value, "%d kB", &kibibytes); err != nil {
				return 0, fmt.Errorf("peak memory: %w", err)
			}
			return kibibytes << 10, nil
		}
	}
	return 0, errors.Join(errors.New("peak memory: no VmHWM in /proc/self/status"), lines.Err())
}
