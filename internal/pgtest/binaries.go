//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

var installed = []string{
	"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin", "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// binaries gives the folder of initdb and postgres: $PGBIN, PATH, the newest of the well-known folders, or a download.
func binaries() (string, error) {
	var dirs []string
	if bin := os.Getenv("PGBIN"); bin != "" {
		if !hasBinaries(bin) { // whoever names a folder does not want another one's version
			return "", fmt.Errorf("pgtest: $PGBIN: no initdb and postgres in %s", bin)
		}
		return bin, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	var found []string
	for _, pattern := range installed {
		matches, _ := filepath.Glob(pattern)
		found = append(found, matches...)
	}
	sort.SliceStable(found, func(i, j int) bool { return version(found[i]) > version(found[j]) })
	for _, dir := range append(dirs, found...) {
		if hasBinaries(dir) {
			return dir, nil
		}
	}
	return download()
}

// version reads .../15/bin, .../postgresql@17/bin, .../pgsql-16/bin.
func version(dir string) float64 {
	base := filepath.Base(filepath.Dir(dir))
	v, _ := strconv.ParseFloat(base[strings.LastIndexAny(base, "@-")+1:], 64)
	return v
}

func hasBinaries(dir string) bool { return isFile(dir+"/initdb") && isFile(dir+"/postgres") }

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// download fetches the binaries once a user. $PG_BINARY_REPOSITORY names another Maven repository.
func download() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil || os.Geteuid() == 0 { // root's home is closed to the unprivileged user
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "pgtest-cache")
	dir := filepath.Join(cache, string(embeddedpostgres.V18))
	if hasBinaries(dir + "/bin") {
		return dir + "/bin", nil
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	// Unpacked aside and renamed: several packages' tests may download at once.
	unpacked, runtime := dir+fmt.Sprint(".", os.Getpid()), filepath.Join(cache, fmt.Sprint("run-", os.Getpid()))
	defer func() { _ = os.RemoveAll(unpacked); _ = os.RemoveAll(runtime) }()
	config := embeddedpostgres.DefaultConfig().Version(embeddedpostgres.V18).CachePath(cache).BinariesPath(unpacked).
		RuntimePath(runtime).Port(uint32(port)).Logger(nil)
	if url := os.Getenv("PG_BINARY_REPOSITORY"); url != "" {
		config = config.BinaryRepositoryURL(url)
	}
	// It has no call that only downloads. As root its initdb fails, but by then everything is unpacked: it makes its
	// runtime folder after that.
	embedded := embeddedpostgres.NewDatabase(config)
	startErr := embedded.Start()
	if startErr == nil {
		startErr = embedded.Stop()
	}
	if _, err := os.Stat(runtime); err != nil || !hasBinaries(unpacked+"/bin") {
		return "", fmt.Errorf("pgtest: no PostgreSQL is installed, and the download failed (set DATABASE_URL or PGBIN): %w", startErr)
	}
	if err := os.Rename(unpacked, dir); err != nil && !hasBinaries(dir+"/bin") {
		return "", fmt.Errorf("pgtest: %w", err)
	}
	return dir + "/bin", nil
}
