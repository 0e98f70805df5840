// Package nearest finds the name that somebody meant.
package nearest

import (
	"fmt"

	"github.com/agnivade/levenshtein"
)

// Name gives the known name that is nearest to a misspelt one, or "" if none is near.
func Name(name string, known []string) string {
	best, least := "", len(name)/2+1
	for _, k := range known {
		if d := levenshtein.ComputeDistance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// Hint is Name as the end of an error's text: "; did you mean …?", or nothing.
func Hint(name string, known []string) string {
	if best := Name(name, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}
