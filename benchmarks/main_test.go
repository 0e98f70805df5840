package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/scenario"
)

func TestListSaysWhatEachScenarioMeasures(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-list"}, &out, io.Discard))
	for _, name := range strings.Fields("forward-1ms forward-0ms held-transaction wake-ceiling wake-latency late-commits publish memory limit") {
		require.Contains(t, out.String(), name+"\n    ")
	}
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len(line), 101)
	}
}

func TestListOfOneScenario(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-list", "-scenario", "limit"}, &out, io.Discard))
	require.True(t, strings.HasPrefix(out.String(), "limit\n"))
	require.NotContains(t, out.String(), "memory\n")
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		`no scenario "speed"; there are forward-1ms, `: {"-scenario", "speed"},
		"-scale must be above 0, not 0":                {"-scale", "0"},
		"-scale must be above 0, not -1":               {"-scale", "-1"},
		`unexpected argument "limit"`:                  {"limit"},
		"flag provided but not defined":                {"-fast"},
	} {
		require.ErrorContains(t, run(context.Background(), args, io.Discard, io.Discard), want)
	}
	require.ErrorIs(t, run(context.Background(), []string{"-h"}, io.Discard, io.Discard), flag.ErrHelp)
}

func TestWithoutANameAllScenariosRun(t *testing.T) {
	scenarios, err := choose("")
	require.NoError(t, err)
	require.Len(t, scenarios, len(scenario.All()))
}

func TestWrapBreaksBetweenWords(t *testing.T) {
	require.Equal(t, "  one two\n  three\n  averylongword", wrap("one two three averylongword", "  ", 10))
}
