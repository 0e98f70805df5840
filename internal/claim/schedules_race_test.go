//go:build race

package claim

const defaultSchedules = 5_000 // the race detector makes them ten times slower
