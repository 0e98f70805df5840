//go:build !race

package claim

const defaultSchedules = 100_000
