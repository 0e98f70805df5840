package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// orderTaken is an event of Watermill's CQRS component.
type orderTaken struct{ Customer, Order string }

// One event bus, made once, serves all transactions: each carries itself in the context.
func ExampleNewContextPublisher() {
	ctx := context.Background()
	pool, db, closeDatabase := openExampleDatabase(ctx)
	defer closeDatabase()
	must(outbox.Migrate(ctx, pool, outbox.Schema{}))

	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	must(err)
	bus, err := cqrs.NewEventBusWithConfig(publisher, cqrs.EventBusConfig{
		GeneratePublishTopic: func(params cqrs.GenerateEventPublishTopicParams) (string, error) { return params.EventName, nil },
		OnPublish: func(params cqrs.OnEventSendParams) error {
			outbox.SetKey(params.Message, params.Event.(*orderTaken).Customer)
			return nil
		},
		Marshaler: cqrs.JSONMarshaler{GenerateName: cqrs.StructName},
	})
	must(err)

	place := func(order string, decline bool) error {
		return inTransaction(ctx, db, func(tx *sql.Tx) error {
			ctx := outbox.ContextWithTx(ctx, tx)
			if err := bus.Publish(ctx, &orderTaken{"alice", order}); err != nil {
				return err
			}
			if decline {
				return errors.New("the card was declined")
			}
			return nil
		})
	}
	fmt.Println(place("one", false))
	fmt.Println(place("two", true))
	fmt.Println(errors.Is(bus.Publish(ctx, &orderTaken{"alice", "three"}), outbox.ErrNoTransaction))

	rows, err := db.QueryContext(ctx, `SELECT topic, key, convert_from(payload, 'UTF8') FROM public.outbox`)
	must(err)
	defer func() { must(rows.Close()) }()
	for rows.Next() {
		var topic, key, payload string
		must(rows.Scan(&topic, &key, &payload))
		fmt.Println(topic, key, payload)
	}
	must(rows.Err())
	// Output:
	// <nil>
	// the card was declined
	// true
	// orderTaken alice {"Customer":"alice","Order":"one"}
}
