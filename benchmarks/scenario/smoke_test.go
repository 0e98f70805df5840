package scenario_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/scenario"
	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
)

// The memory scenario runs this very program again.
func TestMain(m *testing.M) {
	if scenario.IsChild() {
		if err := scenario.RunChild(context.Background(), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Every scenario checks that all sides did the same work. So this shows that they still do, and measures nothing.
func TestEveryScenarioRuns(t *testing.T) {
	ctx := context.Background()
	server, err := pgtest.Start(ctx, scenario.Settings()...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	env, err := scenario.Open(ctx, server.URL, 0.01, t.Logf)
	require.NoError(t, err)
	t.Cleanup(env.Close)
	machine, err := env.Machine(ctx)
	require.NoError(t, err)
	require.Contains(t, machine, "PostgreSQL")

	names := map[string]bool{}
	for _, s := range scenario.All() {
		require.False(t, names[s.Name], "%s is there twice", s.Name)
		names[s.Name] = true
		require.NotEmpty(t, s.About)
		t.Run(s.Name, func(t *testing.T) {
			results, err := s.Run(ctx, env)
			require.NoError(t, err)
			require.NotEmpty(t, results)
			for _, r := range results {
				requireComplete(t, s, r)
			}
		})
	}

	var left int
	require.NoError(t, env.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'outbox\_bench\_%'`).Scan(&left))
	require.Zero(t, left, "everything is cleared away")
}

func requireComplete(t *testing.T, s scenario.Scenario, r report.Result) {
	t.Helper()
	require.Equal(t, s.Name, r.Scenario)
	require.NotEmpty(t, r.Metric)
	require.NotEmpty(t, r.Unit)
	require.NotEmpty(t, r.RivalName)
	if r.Ratio != nil {
		require.NotZero(t, r.Rival)
	}
}
