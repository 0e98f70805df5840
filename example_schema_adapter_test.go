package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Write with watermill-sql's own publisher: code that has one keeps it, and what it writes can be forwarded, or consumed.
func announce(tx *sql.Tx, text string) error {
	publisher, err := wsql.NewPublisher(tx, wsql.PublisherConfig{SchemaAdapter: outbox.SchemaAdapter{}}, nil)
	if err != nil {
		return err
	}
	return publisher.Publish("news", message.NewMessage(watermill.NewUUID(), []byte(text)))
}

// Consume with watermill-sql's own subscriber: straight from the table, without a broker.
func newsSubscriber(db *sql.DB) (*wsql.Subscriber, error) {
	return wsql.NewSubscriber(db, wsql.SubscriberConfig{
		SchemaAdapter:  outbox.SchemaAdapter{BatchSize: 10},
		OffsetsAdapter: outbox.OffsetsAdapter{},
		PollInterval:   10 * time.Millisecond,
		ResendInterval: 10 * time.Millisecond,
	}, nil)
}

// Three pieces of news, one of them rolled back, come from the table to a consumer that fails once; then the subscriber
// is closed in the middle, and the next one goes on.
func ExampleSchemaAdapter() {
	ctx := context.Background()
	pool, db, closeDatabase := openExampleDatabase(ctx)
	defer closeDatabase()
	must(outbox.Migrate(ctx, pool, outbox.Schema{TopicIndex: true}))

	errCancelled := errors.New("cancelled")
	for _, text := range []string{"the shop opens", "the shop burns", "the shop closes"} {
		err := inTransaction(ctx, db, func(tx *sql.Tx) error {
			if err := announce(tx, text); err != nil || text != "the shop burns" {
				return err
			}
			return errCancelled
		})
		if !errors.Is(err, errCancelled) {
			must(err)
		}
	}

	first, err := newsSubscriber(db)
	must(err)
	news, err := first.Subscribe(ctx, "news")
	must(err)
	msg := <-news
	fmt.Println("fails: ", string(msg.Payload))
	msg.Nack()
	msg = <-news
	fmt.Println("acks:  ", string(msg.Payload))
	msg.Ack()
	msg = <-news
	fmt.Println("closes:", string(msg.Payload))
	must(first.Close()) // what was acked is settled; what is in hand is not

	second, err := newsSubscriber(db)
	must(err)
	news, err = second.Subscribe(ctx, "news")
	must(err)
	msg = <-news
	fmt.Println("acks:  ", string(msg.Payload))
	msg.Ack()
	for left := 1; left > 0; {
		must(pool.QueryRow(ctx, `SELECT count(*) FROM public.outbox`).Scan(&left))
	}
	must(second.Close())
	fmt.Println("nothing is left")

	groups, err := wsql.NewSubscriber(db, wsql.SubscriberConfig{
		ConsumerGroup: "billing", SchemaAdapter: outbox.SchemaAdapter{}, OffsetsAdapter: outbox.OffsetsAdapter{},
	}, nil)
	must(err)
	_, err = groups.Subscribe(ctx, "news")
	fmt.Println("a consumer group is refused:", err != nil)
	// Output:
	// fails:  the shop opens
	// acks:   the shop opens
	// closes: the shop closes
	// acks:   the shop closes
	// nothing is left
	// a consumer group is refused: true
}
