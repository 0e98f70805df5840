package relay

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Ours is this library, with its default settings unless config says otherwise.
type Ours struct {
	Place
	label     string
	schema    outbox.Schema
	config    outbox.ForwarderConfig
	publisher *outbox.Publisher
}

// NewOurs takes a label for variants ("" for the default), and the settings that differ from the default.
func NewOurs(place Place, label string, config outbox.ForwarderConfig) (*Ours, error) {
	o := &Ours{Place: place, label: label, config: config}
	o.schema = config.Schema
	o.schema.Name = o.name
	o.config.Schema = o.schema
	var err error
	if o.publisher, err = outbox.NewPgxPublisher(place.pool, outbox.PublisherConfig{Schema: o.schema}, nil); err != nil {
		return nil, fmt.Errorf("our publisher: %w", err)
	}
	return o, nil
}

// Name implements Relay.
func (o *Ours) Name() string {
	if o.label != "" {
		return "ours, " + o.label
	}
	return "ours"
}

// Table implements Relay.
func (o *Ours) Table() string { return o.schema.String() }

// Schema names the tables.
func (o *Ours) Schema() outbox.Schema { return o.schema }

// Create implements Relay.
func (o *Ours) Create(ctx context.Context) error {
	if err := outbox.Migrate(ctx, o.pool, o.schema); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Publish implements Relay.
func (o *Ours) Publish(tx pgx.Tx, topic string, messages ...*message.Message) error {
	return o.publisher.WithPgxTx(tx).Publish(topic, messages...)
}

// PublisherOn writes without a transaction of the caller's: each call is one.
func (o *Ours) PublisherOn(db outbox.PgxExecutor) message.Publisher { return o.publisher.WithPgxTx(db) }

// PublishSQL is Publish for database/sql.
func (o *Ours) PublishSQL(tx *sql.Tx, topic string, messages ...*message.Message) error {
	return o.publisher.WithTx(tx).Publish(topic, messages...)
}

// Run implements Relay.
func (o *Ours) Run(ctx context.Context, broker message.Publisher) error {
	f, err := outbox.NewForwarder(o.pool, broker, o.config, nil)
	if err != nil {
		return fmt.Errorf("our forwarder: %w", err)
	}
	return f.Run(ctx)
}

// Pending implements Relay. Dead letters count: nothing is to die here.
func (o *Ours) Pending(ctx context.Context) (int64, error) {
	dead := pgx.Identifier{o.name, "outbox_dead"}.Sanitize()
	return o.count(ctx, `SELECT (SELECT count(*) FROM `+o.Table()+`) + (SELECT count(*) FROM `+dead+`)`)
}
