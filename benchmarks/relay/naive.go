package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
)

const naiveBatch = 100

// Naive is the relay that everybody writes first: select what is not published, publish it one by one, update it.
type Naive struct {
	Place
	cursor bool
}

// NewNaive finds its rows by their state, with an index for it.
func NewNaive(place Place) *Naive { return &Naive{Place: place} }

// NewCursor finds its rows by an id above the last one it has seen.
func NewCursor(place Place) *Naive { return &Naive{Place: place, cursor: true} }

// Name implements Relay.
func (n *Naive) Name() string {
	if n.cursor {
		return "naive relay, by last id"
	}
	return "naive relay"
}

// Table implements Relay.
func (n *Naive) Table() string { return n.table("outbox") }

// Create implements Relay.
func (n *Naive) Create(ctx context.Context) error {
	return n.create(ctx, `CREATE TABLE `+n.Table()+` (
		id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
		topic text NOT NULL, uuid text NOT NULL, payload bytea, metadata jsonb NOT NULL,
		created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz)`,
		`CREATE INDEX ON `+n.Table()+` (id) WHERE published_at IS NULL`)
}

// Publish implements Relay, in one statement, as COPY and arrays are as common as one INSERT a message.
func (n *Naive) Publish(tx pgx.Tx, topic string, messages ...*message.Message) error {
	if len(messages) == 0 {
		return nil
	}
	uuids, payloads, metadata := make([]string, len(messages)), make([][]byte, len(messages)), make([]string, len(messages))
	for i, m := range messages {
		encoded, err := json.Marshal(m.Metadata)
		if err != nil {
			return fmt.Errorf("encode metadata: %w", err)
		}
		uuids[i], payloads[i], metadata[i] = m.UUID, m.Payload, string(encoded)
	}
	_, err := tx.Exec(messages[0].Context(), `INSERT INTO `+n.Table()+` (topic, uuid, payload, metadata)
		SELECT $1, m.uuid, m.payload, m.metadata::jsonb FROM unnest($2::text[], $3::bytea[], $4::text[]) m(uuid, payload, metadata)`,
		topic, uuids, payloads, metadata)
	if err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	return nil
}

// Pending implements Relay.
func (n *Naive) Pending(ctx context.Context) (int64, error) {
	return n.count(ctx, `SELECT count(*) FROM `+n.Table()+` WHERE published_at IS NULL`)
}

type naiveRow struct {
	ID       int64
	Topic    string
	UUID     string
	Payload  []byte
	Metadata []byte
}

// Run implements Relay.
func (n *Naive) Run(ctx context.Context, broker message.Publisher) error {
	last := int64(0)
	for {
		rows, err := n.next(ctx, last)
		if err != nil {
			return stopped(ctx, err)
		}
		if len(rows) == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		ids := make([]int64, 0, len(rows))
		for _, row := range rows {
			if err := publish(ctx, broker, row); err != nil {
				return err
			}
			ids = append(ids, row.ID)
		}
		if _, err := n.pool.Exec(ctx, `UPDATE `+n.Table()+` SET published_at = now() WHERE id = ANY ($1)`, ids); err != nil {
			return stopped(ctx, fmt.Errorf("update: %w", err))
		}
		if n.cursor {
			last = ids[len(ids)-1]
		}
	}
}

func (n *Naive) next(ctx context.Context, last int64) ([]naiveRow, error) {
	rows, err := n.pool.Query(ctx, `SELECT id, topic, uuid, payload, metadata FROM `+n.Table()+`
		WHERE published_at IS NULL AND id > $1 ORDER BY id LIMIT $2`, last, naiveBatch)
	if err != nil {
		return nil, fmt.Errorf("select: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[naiveRow])
	if err != nil {
		return nil, fmt.Errorf("select: %w", err)
	}
	return found, nil
}

func publish(ctx context.Context, broker message.Publisher, row naiveRow) error {
	m := message.NewMessageWithContext(ctx, row.UUID, row.Payload)
	if err := json.Unmarshal(row.Metadata, &m.Metadata); err != nil {
		return fmt.Errorf("decode metadata: %w", err)
	}
	if err := broker.Publish(row.Topic, m); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}
