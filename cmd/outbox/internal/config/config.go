// Package config reads the command's settings: from a file, from flags, which are stronger, and from the environment, which
// is strongest. It tells everything that is wrong at once, each with where it stands.
package config

import (
	"cmp"
	"time"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Config is everything that was set.
type Config struct {
	Process
	Outboxes []Outbox
	// Overridden has a line for each flag that a variable replaces by something else: who typed it expects that it is used.
	Overridden []string
}

// Process is what is set for the whole process.
type Process struct {
	HTTP      string // address; "": none
	LogFormat string // "" or json
	LogLevel  string // "": info
	Progress  time.Duration
}

// Outbox is what is set for one outbox.
type Outbox struct {
	// Name in logs and metrics; no two have the same.
	Name             string
	Database, Broker string
	Forwarder        outbox.ForwarderConfig

	origins Layer // where each of the settings stands
	at      Origin
}

// defaultWorkers is outbox.ForwarderConfig's.
const defaultWorkers = 4

// Connections is the size of the pool that the forwarder needs.
func (o Outbox) Connections() int32 {
	return int32(cmp.Or(o.Forwarder.Workers, defaultWorkers)) + 1 //nolint:gosec // at most 64 workers
}
