package pgsql

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Names are the two names a user chooses; everything else is derived. They are data: quoted here, never concatenated raw.
type Names struct {
	Schema string // PostgreSQL schema; every statement qualifies by it, so that no search_path matters
	Table  string // the outbox table
}

// MaxIdentifier is PostgreSQL's limit for a name, in bytes (NAMEDATALEN - 1). A longer one is cut, and may then collide.
const MaxIdentifier = 63

// relations and parts are the suffixes of derived names. Relations live in the schema and are qualified in SQL; parts
// (constraints, indexes, triggers) belong to a table and are not.
var (
	relations = map[string]string{
		"outbox":            "",
		"dead":              "_dead",
		"inbox":             "_inbox",
		"migrations":        "_migrations",
		"sequence":          "_id_seq",
		"doorbell":          "_doorbell",
		"lane_function":     "_lane",
		"doorbell_function": "_ring",
	}
	parts = map[string]string{
		"outbox_pkey":          "_pkey",
		"outbox_ready":         "_ready",
		"outbox_waiting":       "_waiting",
		"outbox_holds":         "_holds",
		"outbox_topic":         "_topic",
		"outbox_topic_waiting": "_topic_wait",
		"lane_check":           "_lane_check",
		"topic_check":          "_topic_chk",
		"key_check":            "_key_check",
		"attempts_check":       "_tries_chk",
		"lane_trigger":         "_lane",
		"doorbell_trigger":     "_ring",
		"dead_pkey":            "_dead_pkey",
		"dead_holds":           "_dead_holds",
		"inbox_pkey":           "_inbox_pkey",
		"inbox_received":       "_inbox_recv",
		"migrations_pkey":      "_mig_pkey",
	}
)

// LongestSuffix is the length in bytes of the longest suffix of a derived name.
func LongestSuffix() int {
	longest := 0
	for _, group := range []map[string]string{relations, parts} {
		for _, suffix := range group {
			longest = max(longest, len(suffix))
		}
	}
	return longest
}

// Relation gives a derived relation's qualified, quoted name: "public"."outbox_dead" for "dead".
func (n Names) Relation(name string) string {
	return pgx.Identifier{n.Schema, n.name(name)}.Sanitize()
}

// name gives a derived relation's bare name, for comparison with the catalog.
func (n Names) name(relation string) string { return n.Table + relations[relation] }

// Channel is the doorbell's LISTEN channel. A hash, so that case and length can't differ between the two ends.
func (n Names) Channel() string {
	sum := n.hash()
	return "outbox_" + hex.EncodeToString(sum[:12])
}

// LockClass is the first key of the advisory locks on this table's lanes; the second is the lane. Two outboxes in one
// database don't meet.
func (n Names) LockClass() int32 {
	sum := n.hash()
	return int32(binary.BigEndian.Uint32(sum[:4])) //nolint:gosec // a hash: every bit pattern is as good
}

func (n Names) hash() [sha256.Size]byte { return sha256.Sum256([]byte(n.Schema + "\x00" + n.Table)) }

// render fills the placeholders of a .sql file. One pass: what stands in a name is never read as a placeholder.
func (n Names) render(sql string) string {
	pairs := []string{
		"{schema}", pgx.Identifier{n.Schema}.Sanitize(),
		"{schema_literal}", literal(n.Schema),
		"{dollar}", n.dollar(),
		"{channel}", pgx.Identifier{n.Channel()}.Sanitize(),
		"{channel_literal}", literal(n.Channel()),
		"{lock_class}", "(" + strconv.Itoa(int(n.LockClass())) + ")",
	}
	for name := range relations {
		pairs = append(pairs, "{"+name+"}", n.Relation(name), "{"+name+"_literal}", literal(n.Relation(name)),
			"{"+name+"_name}", literal(n.name(name)))
	}
	for name, suffix := range parts {
		pairs = append(pairs, "{"+name+"}", pgx.Identifier{n.Table + suffix}.Sanitize(),
			"{"+name+"_literal}", literal(pgx.Identifier{n.Schema, n.Table + suffix}.Sanitize()))
	}
	return strings.NewReplacer(pairs...).Replace(sql)
}

// dollar is a quote that no name can end: for function bodies that contain names.
func (n Names) dollar() string { return dollar(n.Schema + n.Table) }

func dollar(content string) string {
	tag := "$outbox"
	for strings.Contains(content, tag) {
		tag += "_"
	}
	return tag + "$"
}

// literal quotes a string for SQL, whatever standard_conforming_strings says.
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// unquoted is literal's inverse.
func unquoted(quoted string) string {
	quoted, escaped := strings.CutPrefix(quoted, " E")
	s := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(quoted, "'"), "'"), "''", "'")
	if escaped {
		return strings.ReplaceAll(s, `\\`, `\`)
	}
	return s
}
