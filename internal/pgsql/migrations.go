package pgsql

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one step of the schema, rendered for one table.
type Migration struct {
	Version  int
	Name     string
	Optional bool
	Up, Down string
}

// The versions of the optional steps.
const (
	DoorbellVersion   = 2
	TopicIndexVersion = 3
)

var migrationList = []Migration{
	{Version: 1, Name: "outbox"},
	{Version: DoorbellVersion, Name: "doorbell", Optional: true},
	{Version: TopicIndexVersion, Name: "topic_index", Optional: true},
}

// MissingVersions are the steps that must be there and are not among those applied.
func MissingVersions(applied []int) []int {
	var missing []int
	for _, m := range migrationList {
		if !m.Optional && !slices.Contains(applied, m.Version) {
			missing = append(missing, m.Version)
		}
	}
	return missing
}

// UnknownVersions are those applied that a newer library must have made.
func UnknownVersions(applied []int) []int {
	return slices.DeleteFunc(slices.Clone(applied), func(version int) bool {
		return slices.ContainsFunc(migrationList, func(m Migration) bool { return m.Version == version })
	})
}

// Migrations renders all steps in order. Each records itself in the migrations table, so that applying the SQL with any
// tool leaves the same state as applying it with this library.
func Migrations(names Names) []Migration {
	rendered := make([]Migration, 0, len(migrationList))
	for _, m := range migrationList {
		file := fmt.Sprintf("migrations/%03d_%s", m.Version, m.Name)
		record := fmt.Sprintf("\nINSERT INTO {migrations} (version, name) VALUES (%d, '%s');\n", m.Version, m.Name)
		m.Up = names.render(read(migrationFiles, file+".up.sql") + record)
		forget := ""
		if m.Version > 1 { // the first one drops the table itself
			forget = fmt.Sprintf("DELETE FROM {migrations} WHERE version = %d;\n", m.Version)
		}
		m.Down = names.render(read(migrationFiles, file+".down.sql") + forget)
		rendered = append(rendered, m)
	}
	return rendered
}

func read(files embed.FS, name string) string {
	text, err := files.ReadFile(name)
	if err != nil { // embedded at build time: a name that is not there is a mistake in this package
		panic("outbox: " + err.Error())
	}
	return strings.TrimRight(string(text), "\n") + "\n"
}
