package pgtest

import (
	"os"
	"syscall"
)

// sysProcAttr ends the postmaster and its children with this process. The signal is sent when the starting THREAD ends:
// don't start a server from a goroutine that is locked to its thread.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}

// tempBase prefers memory, which halves the start time, unless it is a container's default of 64 MB.
func tempBase() string {
	var st syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs("/dev/shm", &st) == nil && st.Bavail*uint64(st.Bsize) > 1<<30 {
		return "/dev/shm"
	}
	return ""
}
