package sql

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
)

//go:embed insert.sql
var insertText string

var (
	schema  = wsql.DefaultPostgreSQLSchema{GeneratePayloadType: func(string) string { return "BYTEA" }}
	offsets = wsql.DefaultPostgreSQLOffsetsAdapter{}
)

// TopicError says that no table can be named after a topic.
type TopicError struct {
	Topic string
	// Reason says what would be right.
	Reason string
}

// Error gives both.
func (e *TopicError) Error() string { return fmt.Sprintf("sql: topic %q: %s", e.Topic, e.Reason) }

// UnknownTopicError says that a topic's tables are not there, and that they must not be created.
type UnknownTopicError struct {
	Topic string
	err   error
}

// Error tells what to do.
func (e *UnknownTopicError) Error() string {
	return fmt.Sprintf("sql: topic %q has no tables, and auto_initialize is off; create them: %v", e.Topic, e.err)
}

// Unwrap gives the server's answer.
func (e *UnknownTopicError) Unwrap() error { return e.err }

const (
	offsetsPrefix = "offsets_"
	// maxTopic is what a name of 63 bytes, PostgreSQL's longest, leaves; it cuts longer ones, so that topics would share a table.
	maxTopic = 63 - len("watermill_"+offsetsPrefix)
)

var topicName = regexp.MustCompile(`^[A-Za-z0-9\-$:._]+$`) // watermill-sql's rule

// checkTopic gives a *TopicError for what can't be the name of a topic.
func checkTopic(topic string) error {
	switch {
	case len(topic) > maxTopic:
		return &TopicError{topic, fmt.Sprintf("it has %d bytes, the name of its tables leaves %d", len(topic), maxTopic)}
	case !topicName.MatchString(topic):
		return &TopicError{topic, "it must have letters, digits and -$:._ only, and at least one"}
	case strings.HasPrefix(topic, offsetsPrefix):
		return &TopicError{topic, "it must not begin with " + offsetsPrefix + ", as the tables of how far groups have come do"}
	}
	return nil
}

// queue adds a message to what is sent to the server.
func queue(b *pgx.Batch, topic string, msg *message.Message) error {
	metadata := []byte("{}")
	if len(msg.Metadata) > 0 {
		var err error
		if metadata, err = json.Marshal(msg.Metadata); err != nil {
			return fmt.Errorf("sql: metadata: %w", err)
		}
	}
	// As a text, which any of pgx's modes can send for JSON.
	b.Queue(fmt.Sprintf(insertText, schema.MessagesTable(topic)), msg.UUID, []byte(msg.Payload), string(metadata))
	return nil
}

// creating is the lock of those who create tables: CREATE TABLE IF NOT EXISTS fails for one of two who do at once.
const creating = `SELECT pg_advisory_xact_lock(hashtextextended('watermill-outbox: broker tables', 0))`

// beginner is a *pgx.Conn or a *pgxpool.Pool.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// create makes the tables of a topic that are missing. Where they are there, the role needs no right to create.
func createTables(ctx context.Context, db beginner, topic string) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, creating); err != nil {
			return err
		}
		for table, queries := range map[string][]wsql.Query{
			schema.MessagesTable(topic):         schema.SchemaInitializingQueries(topic),
			offsets.MessagesOffsetsTable(topic): offsets.SchemaInitializingQueries(topic),
		} {
			var exists bool
			if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&exists); err != nil {
				return err
			}
			if exists {
				continue
			}
			for _, q := range queries {
				if _, err := tx.Exec(ctx, q.Query, q.Args...); err != nil {
					return fmt.Errorf("sql: creating %s: %w", table, err)
				}
			}
		}
		return nil
	})
}
