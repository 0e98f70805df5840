package outbox

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// Schema names the outbox's tables. Its zero value is public.outbox with a doorbell.
//
// Every statement qualifies by Name and quotes both names, so that neither search_path nor odd characters matter. The
// derived tables are Table with the suffixes _dead, _inbox, _doorbell and _migrations. Several outboxes in one database
// don't disturb one another.
type Schema struct {
	// Name of the PostgreSQL schema. Defaults to "public". Migrate creates it when it is missing.
	Name string
	// Table is the outbox's name, at most 52 bytes, so that the derived names stay within PostgreSQL's 63.
	// Defaults to "outbox".
	Table string
	// NoDoorbell leaves out the trigger that wakes sleeping forwarders; they poll instead. Set it when transactions
	// that publish are PREPAREd (two-phase commit), which PostgreSQL refuses after a notification. Migrate reads it.
	NoDoorbell bool
	// TopicIndex adds the indexes that watermill-sql subscribers on the outbox need. The Forwarder does not.
	// Migrate reads it.
	TopicIndex bool
}

// Validate reports everything wrong with the names, each problem with its field.
func (s Schema) Validate() error {
	s = s.withDefaults()
	var reserved error
	if strings.HasPrefix(s.Name, "pg_") {
		reserved = fmt.Errorf("outbox: Schema.Name: %q begins with pg_, which PostgreSQL keeps for itself", s.Name)
	}
	return errors.Join(reserved,
		validateIdentifier("Schema.Name", s.Name, pgsql.MaxIdentifier),
		validateIdentifier("Schema.Table", s.Table, pgsql.MaxIdentifier-pgsql.LongestSuffix()))
}

func validateIdentifier(field, name string, limit int) error {
	switch {
	case !utf8.ValidString(name):
		return fmt.Errorf("outbox: %s: %q is not valid UTF-8", field, name)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("outbox: %s: %q contains a NUL byte, which PostgreSQL can't store", field, name)
	case len(name) > limit:
		return fmt.Errorf("outbox: %s: %q has %d bytes, at most %d are allowed", field, name, len(name), limit)
	}
	return nil
}

func (s Schema) withDefaults() Schema {
	if s.Name == "" {
		s.Name = "public"
	}
	if s.Table == "" {
		s.Table = "outbox"
	}
	return s
}

// String gives the qualified, quoted name of the outbox table.
func (s Schema) String() string { return s.names().Relation("outbox") }

func (s Schema) names() pgsql.Names {
	s = s.withDefaults()
	return pgsql.Names{Schema: s.Name, Table: s.Table}
}
