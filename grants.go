package outbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// Role is what a database role does with an outbox; Grants gives it no more than it needs for that.
type Role int

const (
	// RoleWriter publishes: it inserts, and can neither read nor change what is in the outbox.
	RoleWriter = Role(pgsql.Writer)
	// RoleForwarder runs a Forwarder. It can't insert, and can't touch the inbox.
	RoleForwarder = Role(pgsql.Forwarder)
	// RoleConsumer runs an Inbox, whose handlers may publish. It can't read the outbox.
	RoleConsumer = Role(pgsql.Consumer)
	// RoleOperator looks after the dead letters, and reads the statistics.
	RoleOperator = Role(pgsql.Operator)
	// RoleSubscriber takes messages with watermill-sql's Subscriber, by SchemaAdapter and OffsetsAdapter. It can't insert:
	// who publishes as well needs RoleWriter's grants too.
	RoleSubscriber = Role(pgsql.Subscriber)
)

// String gives the role's name: writer, forwarder, consumer, operator, subscriber.
func (r Role) String() string {
	switch r {
	case RoleWriter:
		return "writer"
	case RoleForwarder:
		return "forwarder"
	case RoleConsumer:
		return "consumer"
	case RoleOperator:
		return "operator"
	case RoleSubscriber:
		return "subscriber"
	default:
		return fmt.Sprintf("Role(%d)", int(r))
	}
}

// Grants gives the SQL that lets the database role grantee do what role says, and nothing else: GRANT statements, to be
// run by the tables' owner after Migrate, and again when a newer library has brought new tables. With Schema.NoDoorbell
// those on the doorbell are left out.
func Grants(schema Schema, role Role, grantee string) (string, error) {
	problems := []error{schema.Validate(), validateIdentifier("grantee", grantee, pgsql.MaxIdentifier)}
	if role < RoleWriter || role > RoleSubscriber {
		problems = append(problems, fmt.Errorf("outbox: role: %s is none of RoleWriter, RoleForwarder, RoleConsumer, RoleOperator and RoleSubscriber", role))
	}
	if grantee == "" {
		problems = append(problems, errors.New("outbox: grantee: must name a database role"))
	}
	if err := errors.Join(problems...); err != nil {
		return "", err
	}
	names := schema.names()
	return strings.Join(names.Grants(names.Needs(pgsql.Role(role), !schema.NoDoorbell), grantee), "\n") + "\n", nil
}
