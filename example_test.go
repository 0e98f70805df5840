package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jackc/pgx/v5/pgxpool"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Once, at deployment. Nothing else needs the right to create tables.
func deploy(ctx context.Context, pool *pgxpool.Pool) error {
	return outbox.Migrate(ctx, pool, outbox.Schema{})
}

// Write: in your transaction. Commit, and both are there; roll back, and neither ever was.
func placeOrder(ctx context.Context, tx *sql.Tx, customer, order string) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO shop.orders VALUES ($1, $2)`, customer, order); err != nil {
		return err
	}
	publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
	if err != nil {
		return err
	}
	msg := message.NewMessageWithContext(ctx, watermill.NewUUID(), []byte(order))
	outbox.SetKey(msg, customer) // one customer's messages arrive in order
	return publisher.Publish("orders", msg)
}

// Forward: in any number of processes, with any Watermill publisher. Runs until ctx is done, and then stops gracefully.
// The pool needs a connection a worker and one more: put pool_max_conns=10 into its URL.
func forward(ctx context.Context, pool *pgxpool.Pool, broker message.Publisher) error {
	forwarder, err := outbox.NewForwarder(pool, broker, outbox.ForwarderConfig{}, watermill.NewSlogLogger(nil))
	if err != nil {
		return err
	}
	return forwarder.Run(ctx)
}

// The way of two orders from a transaction to a consumer. A third one is rolled back, and with it its message.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	pool, db, closeDatabase := openExampleDatabase(ctx)
	defer closeDatabase()
	must(deploy(ctx, pool))

	errDeclined := errors.New("the card was declined")
	for order, declined := range []bool{false, true, false} {
		err := inTransaction(ctx, db, func(tx *sql.Tx) error {
			if err := placeOrder(ctx, tx, "alice", fmt.Sprint("order ", order)); err != nil || !declined {
				return err
			}
			return errDeclined
		})
		if !errors.Is(err, errDeclined) {
			must(err)
		}
	}

	// A broker that acknowledges what has arrived, not what it means to deliver.
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	orders, err := broker.Subscribe(ctx, "orders")
	must(err)
	ended := make(chan error)
	go func() { ended <- forward(ctx, pool, broker) }()
	for range 2 {
		msg := <-orders
		fmt.Printf("%s: %s\n", outbox.Key(msg), msg.Payload)
		msg.Ack()
	}
	stop()
	must(<-ended)
	// Output:
	// alice: order 0
	// alice: order 2
}
