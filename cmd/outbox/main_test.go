package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
)

// The binary as users get it, with all brokers.
func TestBinary(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "outbox")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	built, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(built))
	for _, test := range []struct {
		code           int
		stdout, stderr string
		args           []string
	}{
		{0, "outbox ", "", []string{"version"}},
		{0, "Exit codes:", "", []string{"--help"}},
		{0, "#workers: 4\n", "", []string{"config", "example"}},
		{0, "CREATE TABLE", "", []string{"migrate", "print"}},
		{0, "__start_outbox", "", []string{"completion", "bash"}},
		{2, "", "database: it is missing", []string{"forward"}},
		{1, "", "failed to connect", []string{"status", "--database", "postgres://me@127.0.0.1:1/x"}},
	} {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), binary, test.args...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		for _, entry := range os.Environ() {
			if !strings.HasPrefix(entry, config.Prefix) {
				cmd.Env = append(cmd.Env, entry)
			}
		}
		err := cmd.Run()
		require.Equal(t, test.code, cmd.ProcessState.ExitCode(), "%v: %v\n%s", test.args, err, stderr.String())
		require.Contains(t, stdout.String(), test.stdout)
		require.Contains(t, stderr.String(), test.stderr)
	}
}
