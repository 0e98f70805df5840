//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// folder is a server's directory. It is locked for as long as this process lives, so that the next one can tell what a
// killed one left behind.
type folder struct {
	path string
	lock *os.File
}

// newFolder is not testing's TempDir: that one's parent is closed to another user.
func newFolder() (*folder, error) {
	removeLeftovers()
	path, err := os.MkdirTemp(tempBase(), "pgtest-")
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	f := &folder{path: path}
	if f.lock, err = lockFolder(path); err == nil && os.Geteuid() == 0 {
		err = os.Chown(path, nobody, nobody)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %w", err), f.remove())
	}
	return f, nil
}

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		_ = f.lock.Close()
		f.lock = nil
	}
	return err
}

func lockFolder(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// removeLeftovers removes the folders of processes that were killed. Best effort: others may be at it as well.
func removeLeftovers() {
	base := tempBase()
	if base == "" {
		base = os.TempDir()
	}
	paths, _ := filepath.Glob(filepath.Join(base, "pgtest-*"))
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue // a new one may not be locked yet
		}
		if lock, err := lockFolder(path); err == nil {
			_ = os.RemoveAll(path)
			_ = lock.Close()
		}
	}
}
