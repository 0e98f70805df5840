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

// Write, in your transaction: it commits with your rows, or was never there.
func publish(ctx context.Context, tx *sql.Tx, customer, order string) error {
	publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
	if err != nil {
		return err
	}
	msg := message.NewMessageWithContext(ctx, watermill.NewUUID(), []byte(order))
	outbox.SetKey(msg, customer) // one customer's messages arrive in order
	return publisher.Publish("orders", msg)
}

// Forward, in any number of processes, with any Watermill publisher, until ctx is done.
func forward(ctx context.Context, pool *pgxpool.Pool, broker message.Publisher) error {
	forwarder, err := outbox.NewForwarder(pool, broker, outbox.ForwarderConfig{}, watermill.NewSlogLogger(nil))
	if err != nil {
		return err
	}
	return forwarder.Run(ctx)
}

// Consume: what a handler does in the inbox's transaction happens once, however often the message comes.
func consume(router *message.Router, broker message.Subscriber, db *sql.DB) error {
	inbox, err := outbox.NewInbox(db, outbox.InboxConfig{}, nil)
	if err != nil {
		return err
	}
	router.AddMiddleware(inbox.Middleware) // after PoisonQueue, Retry, Timeout and Recoverer, if you use them
	router.AddConsumerHandler("emails", "orders", broker, func(msg *message.Message) error {
		tx, _ := outbox.TxFromContext(msg.Context())
		_, err := tx.ExecContext(msg.Context(), `INSERT INTO shop.emails (body) VALUES ($1)`, string(msg.Payload))
		return err
	})
	return nil
}

// The way of two orders from a transaction to the emails about them. A third one is rolled back, and with it its message.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	pool, db, closeDatabase := openExampleDatabase(ctx)
	defer closeDatabase()
	must(outbox.Migrate(ctx, pool, outbox.Schema{})) // once, at deployment

	errDeclined := errors.New("the card was declined")
	for order, declined := range []bool{false, true, false} {
		err := inTransaction(ctx, db, func(tx *sql.Tx) error {
			if err := publish(ctx, tx, "alice", fmt.Sprint("order ", order)); err != nil || !declined {
				return err
			}
			return errDeclined
		})
		if !errors.Is(err, errDeclined) {
			must(err)
		}
	}

	// A broker that acknowledges what has arrived, not what it means to deliver; and it delivers everything twice.
	broker := twice{gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)}
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	must(err)
	handled := make(chan string)
	router.AddMiddleware(reports(handled))
	must(consume(router, broker, db))
	ended := make(chan error)
	go func() { ended <- router.Run(ctx) }()
	<-router.Running()
	go func() { ended <- forward(ctx, pool, broker) }()
	for range 4 {
		fmt.Println("handled", <-handled)
	}
	printEmails(ctx, db)
	stop()
	must(errors.Join(<-ended, <-ended))
	// Output:
	// handled order 0
	// handled order 0
	// handled order 2
	// handled order 2
	// email about order 0
	// email about order 2
}
