package claim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fault is a rule taken away: in the library's code, or in the model where the rule lies in the SQL or in the driver.
type fault struct {
	name  string
	edits []edit
}

type edit struct{ file, from, to string }

// faultSchedules are enough for the rarest of the faults, several times over.
const faultSchedules = 100_000

// The simulation proves something only if it notices when a rule is broken. Each fault is put into a copy of the sources,
// which the compiler takes instead of the real ones; the simulation must fail there.
func TestBrokenRulesAreNoticed(t *testing.T) {
	for _, f := range slices.Concat(floorFaults, orderFaults) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			binary := filepath.Join(folder, "claim.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w",
				"-overlay", overlay(t, folder, f.edits), "-o", binary, ".")
			output, err := build.CombinedOutput()
			require.NoError(t, err, string(output))

			run := exec.CommandContext(t.Context(), binary, "-test.run=^TestSimulation$", fmt.Sprint("-claim.schedules=", faultSchedules))
			run.Env = append(os.Environ(), "GOMAXPROCS=1") // the other faults run meanwhile
			output, err = run.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "not noticed in %d schedules: %s", faultSchedules, output)
			seed := regexp.MustCompile(`-claim\.seed=(\d+)`).FindSubmatch(output)
			require.NotNil(t, seed, "failed, but not by a schedule: %s", output)
			n, err := strconv.Atoi(string(seed[1]))
			require.NoError(t, err)
			t.Logf("found by schedule %d: %s", n, bytes.SplitN(bytes.TrimSpace(output), []byte("\n"), 3)[1])
		})
	}
}

// needed are the files that a fault is built with; without the others that takes half the time.
var needed = regexp.MustCompile(`^((book|plan|facts|snapshot|row)\.go|(sim_.*|simulation|schedules.*)_test\.go)$`)

// overlay writes the changed copies and the file that tells the compiler of them.
func overlay(t *testing.T, folder string, edits []edit) string {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	replace := map[string]string{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if !needed.MatchString(file) {
			replace[filepath.Join(here, file)] = "" // is not there
		}
	}
	changed := map[string]string{}
	for _, e := range edits {
		text, ok := changed[e.file]
		if !ok {
			source, err := os.ReadFile(e.file)
			require.NoError(t, err)
			text = string(source)
		}
		require.Equal(t, 1, strings.Count(text, e.from), "%s has not exactly one: %s", e.file, e.from)
		changed[e.file] = strings.Replace(text, e.from, e.to, 1)
	}
	for file, text := range changed {
		copied := filepath.Join(folder, file)
		require.NoError(t, os.WriteFile(copied, []byte(text), 0o600))
		replace[filepath.Join(here, file)] = copied
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	path := filepath.Join(folder, "overlay.json")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}
