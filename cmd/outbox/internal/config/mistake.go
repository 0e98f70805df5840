package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Origin is where a setting stands.
type Origin struct {
	File         string
	Line, Column int
	// Name is a flag or an environment variable, if it stands in no file.
	Name string
}

// String gives file:line:column, or the name.
func (o Origin) String() string {
	switch {
	case o.Line > 0:
		return fmt.Sprintf("%s:%d:%d", o.File, o.Line, o.Column)
	case o.File != "":
		return o.File
	default:
		return o.Name
	}
}

// Mistake is one thing that is wrong with the settings.
type Mistake struct {
	Origin Origin
	// Key is the setting; "" if the mistake is none of a setting.
	Key string
	// Text says what is wrong, and what would be right. It has no secrets.
	Text string
}

// String gives a line.
func (m Mistake) String() string {
	parts := []string{m.Origin.String(), m.Key, m.Text}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// MistakesError is all of them, those of the file first, in its order.
type MistakesError []Mistake

// Error gives a line for each.
func (m MistakesError) Error() string {
	lines := make([]string, len(m))
	for i, mistake := range m {
		lines[i] = mistake.String()
	}
	return strings.Join(lines, "\n")
}

// mistakes collects them.
type mistakes struct{ list MistakesError }

func (m *mistakes) add(at Origin, key, format string, args ...any) {
	mistake := Mistake{Origin: at, Key: key, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(m.list, mistake) { // a setting shared by several outboxes is wrong once
		m.list = append(m.list, mistake)
	}
}

// sorted gives them in order, nil if there are none.
func (m *mistakes) sorted() error {
	if len(m.list) == 0 {
		return nil
	}
	slices.SortStableFunc(m.list, func(a, b Mistake) int {
		inFile := func(o Origin) int {
			if o.File != "" {
				return 0
			}
			return 1
		}
		return cmp.Or(inFile(a.Origin)-inFile(b.Origin), cmp.Compare(a.Origin.Line, b.Origin.Line), cmp.Compare(a.Origin.Column, b.Origin.Column))
	})
	return m.list
}
