//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pgtest

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// old gives a server's folder as a process leaves it that was killed some time ago, or that has run for some time.
func old(t *testing.T) *folder {
	t.Helper()
	f, err := newFolder()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.remove()) })
	require.NoError(t, os.WriteFile(f.path+"/file", nil, 0o600))
	before := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(f.path, before, before))
	return f
}

func TestFolderOfAKilledProcessIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	f := old(t)
	require.NoError(t, f.lock.Close()) // as the kernel does for the dead
	removeLeftovers()
	require.NoDirExists(t, f.path)
}

func TestFolderOfALivingProcessStays(t *testing.T) {
	t.Parallel()
	f := old(t)
	removeLeftovers()
	require.DirExists(t, f.path)
}

func TestNewestVersionIsPreferred(t *testing.T) {
	t.Parallel()
	require.Greater(t, version("/usr/lib/postgresql/18/bin"), version("/usr/lib/postgresql/9.6/bin"))
	require.InDelta(t, 17, version("/opt/homebrew/opt/postgresql@17/bin"), 0)
	require.InDelta(t, 16, version("/usr/pgsql-16/bin"), 0)
	require.InDelta(t, 0, version("/usr/local/pgsql/bin"), 0)
}
