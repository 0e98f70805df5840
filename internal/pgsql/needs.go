package pgsql

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// Role is what a database role does with an outbox.
type Role int

// The roles, in the order of the documentation.
const (
	Writer Role = iota + 1
	Forwarder
	Consumer
	Operator
	Subscriber
)

// Need is a privilege that a role must have, on the schema or on one of its relations.
type Need struct {
	Kind      string `json:"kind"` // SCHEMA, TABLE, SEQUENCE
	Name      string `json:"name"` // bare; "" for the schema
	Privilege string `json:"privilege"`
}

type object struct {
	kind, relation string
	privileges     string // separated by spaces
}

var (
	schemaUsage = object{kind: "SCHEMA", privileges: "USAGE"}
	versions    = object{"TABLE", "migrations", "SELECT"}
	writing     = []object{schemaUsage, {"TABLE", "outbox", "INSERT"}, {"SEQUENCE", "sequence", "USAGE"}}
	doorbell    = object{"SEQUENCE", "doorbell", "SELECT UPDATE"}

	// Locking a row (FOR UPDATE) takes UPDATE on its table.
	needs = map[Role][]object{
		Writer: writing,
		Forwarder: {
			schemaUsage, versions, {"TABLE", "outbox", "SELECT UPDATE DELETE"}, {"SEQUENCE", "sequence", "SELECT"},
			{"TABLE", "dead", "SELECT INSERT"}, doorbell,
		},
		Consumer: append([]object{versions, {"TABLE", "inbox", "SELECT INSERT DELETE"}}, writing...),
		Operator: {
			schemaUsage, versions, {"TABLE", "outbox", "SELECT INSERT UPDATE"}, {"TABLE", "dead", "SELECT DELETE"},
		},
		Subscriber: {schemaUsage, {"TABLE", "outbox", "SELECT UPDATE DELETE"}},
	}
)

// Needs lists a role's needs; the forwarder's include the doorbell's if there is one.
func (n Names) Needs(role Role, withDoorbell bool) []Need {
	var list []Need
	for _, o := range needs[role] {
		if o == doorbell && !withDoorbell {
			continue
		}
		name := ""
		if o.relation != "" {
			name = n.name(o.relation)
		}
		for _, privilege := range strings.Fields(o.privileges) {
			list = append(list, Need{Kind: o.kind, Name: name, Privilege: privilege})
		}
	}
	return list
}

// Grants gives the statements that meet needs, one an object.
func (n Names) Grants(list []Need, grantee string) []string {
	var statements []string
	for len(list) > 0 {
		first, privileges := list[0], []string{}
		for len(list) > 0 && list[0].Kind == first.Kind && list[0].Name == first.Name {
			privileges, list = append(privileges, list[0].Privilege), list[1:]
		}
		statements = append(statements, "GRANT "+strings.Join(privileges, ", ")+" ON "+first.Kind+" "+n.Object(first)+
			" TO "+pgx.Identifier{grantee}.Sanitize()+";")
	}
	return statements
}

// Object gives the quoted name of what a need is about.
func (n Names) Object(need Need) string {
	if need.Name == "" {
		return pgx.Identifier{n.Schema}.Sanitize()
	}
	return pgx.Identifier{n.Schema, need.Name}.Sanitize()
}
