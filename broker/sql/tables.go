package sql

import (
	"fmt"
	"regexp"
	"strings"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/jackc/pgx/v5"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// The names of a topic's tables, as watermill-sql's.
const (
	messagesPrefix = "watermill_"
	offsetsPrefix  = "watermill_offsets_"
	// maxIdentifier is PostgreSQL's NAMEDATALEN less one. It cuts longer names, so that two topics would be one table.
	maxIdentifier = 63
	maxTopic      = maxIdentifier - len(offsetsPrefix)
)

var topicName = regexp.MustCompile(`^[A-Za-z0-9$:._-]+$`)

// InvalidTopicError says that a topic can't be a table's name.
type InvalidTopicError struct {
	Topic string
	// Reason says what would be right.
	Reason string
}

// Error gives both.
func (e *InvalidTopicError) Error() string {
	return fmt.Sprintf("sql: topic %q: %s", e.Topic, e.Reason)
}

func validateTopic(topic string) error {
	switch {
	case !topicName.MatchString(topic):
		return &InvalidTopicError{topic, "it must be letters and digits of ASCII, and - $ : . _"}
	case len(topic) > maxTopic:
		return &InvalidTopicError{topic, fmt.Sprintf("it must have at most %d characters, or its tables' names would be cut", maxTopic)}
	case strings.HasPrefix(topic, offsetsPrefix[len(messagesPrefix):]):
		return &InvalidTopicError{topic, "it must not begin with offsets_, or its table would be that of another topic's offsets"}
	}
	return nil
}

// tables names the tables. Topics are validated before.
type tables struct{ schema string }

func (t tables) validate() error {
	if len(t.schema) > maxIdentifier || strings.ContainsRune(t.schema, 0) {
		return &broker.URLError{Part: "schema", Reason: fmt.Sprintf("it must have at most %d bytes, and none that is zero", maxIdentifier)}
	}
	return nil
}

func (t tables) name(table string) string {
	if t.schema == "" {
		return pgx.Identifier{table}.Sanitize()
	}
	return pgx.Identifier{t.schema, table}.Sanitize()
}

func (t tables) messages(topic string) string { return t.name(messagesPrefix + topic) }

func (t tables) offsets(topic string) string { return t.name(offsetsPrefix + topic) }

func (t tables) schemaAdapter(batchSize int) wsql.DefaultPostgreSQLSchema {
	return wsql.DefaultPostgreSQLSchema{
		GenerateMessagesTableName: t.messages,
		GeneratePayloadType:       func(string) string { return "BYTEA" },
		SubscribeBatchSize:        batchSize,
	}
}

func (t tables) offsetsAdapter() wsql.DefaultPostgreSQLOffsetsAdapter {
	return wsql.DefaultPostgreSQLOffsetsAdapter{GenerateMessagesOffsetsTableName: t.offsets}
}
