package main

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// play runs the program and gives its exit code and output.
func play(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

func TestShopLosesNothingAndLeavesNothingBehind(t *testing.T) {
	url := testdb.URL(t)
	t.Setenv("DATABASE_URL", url)
	code, stdout, stderr := play("-orders", "600")
	require.Equal(t, exitOK, code, stdout+stderr)
	require.Contains(t, stdout, "Every invariant holds.")
	require.Contains(t, stdout, "The broker is back")
	require.Regexp(t, `A dead letter: order [0-9a-f]{8} of customer-7, ".*the broker chokes on this message"`, stdout)
	require.Regexp(t, `the customer's [1-9]\d* orders are requeued`, stdout)
	require.Regexp(t, `duplicates suppressed *│ *[1-9]`, stdout)
	require.Regexp(t, `All [1-9]\d* connections of forwarder 2 are cut`, stdout)
	require.NotContains(t, stdout, "\x1b", "no colours and no cursor movements off a terminal")

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	var schemas int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'quickstart%'`).Scan(&schemas))
	require.Zero(t, schemas)
}

func TestHelpShowsFlagsAndExamples(t *testing.T) {
	code, stdout, stderr := play("--help")
	require.Equal(t, exitOK, code)
	require.Empty(t, stderr)
	for _, want := range []string{"-orders", "-duration", "DATABASE_URL", "Examples:", "default 8000", "default 10s"} {
		require.Contains(t, stdout, want)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for _, test := range []struct{ args, want []string }{
		{[]string{"-orders", "0"}, []string{"-orders must be at least 1, not 0"}},
		{[]string{"-duration", "-1s"}, []string{"-duration must be positive, not -1s"}},
		{[]string{"-speed", "9"}, []string{"-speed", "see -help"}},
		{[]string{"now"}, []string{`"now" is not a flag`}},
	} {
		code, stdout, stderr := play(test.args...)
		require.Equal(t, exitUsage, code)
		require.Empty(t, stdout)
		for _, want := range test.want {
			require.Contains(t, stderr, want)
		}
	}
}

func TestDatabaseThatCanNotBeReachedIsAnError(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none?sslmode=disable")
	code, _, stderr := play()
	require.Equal(t, exitBroken, code)
	require.Contains(t, stderr, "quickstart:")
}
