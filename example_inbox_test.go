package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// A link of a chain: it consumes orders, ships them in its database, and says so by a message. The first try fails half
// way; its broker delivers everything twice.
func ExampleInbox() {
	ctx := context.Background()
	pool, db, closeDatabase := openExampleDatabase(ctx)
	defer closeDatabase()
	must(outbox.Migrate(ctx, pool, outbox.Schema{}))

	inbox, err := outbox.NewInbox(db, outbox.InboxConfig{
		Consumer:    "warehouse",
		OnDuplicate: func(msg *message.Message) { fmt.Printf("%s is known\n", msg.Payload) },
	}, nil)
	must(err)
	retry := middleware.Retry{MaxRetries: 3, InitialInterval: time.Millisecond, ResetContextOnRetry: true}
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	must(err)
	router.AddMiddleware(retry.Middleware, middleware.Timeout(time.Minute), middleware.Recoverer, inbox.Middleware)

	broker := twice{gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)}
	tries := 0
	router.AddHandler("ship", "orders", broker, "shipped", broker, func(msg *message.Message) ([]*message.Message, error) {
		tx, _ := outbox.TxFromContext(msg.Context())
		if _, err := tx.ExecContext(msg.Context(), `INSERT INTO shop.parcels (body) VALUES ($1)`, string(msg.Payload)); err != nil {
			return nil, err
		}
		if tries++; tries == 1 {
			return nil, errors.New("the printer is out of labels") // takes the parcel with it
		}
		fmt.Printf("%s is shipped, at try %d\n", msg.Payload, tries)
		return []*message.Message{message.NewMessage("", msg.Payload)}, nil
	})
	ended := make(chan error)
	go func() { ended <- router.Run(ctx) }()
	<-router.Running()

	must(broker.Publish("orders", message.NewMessage("1", []byte("order 1"))))
	must(router.Close())
	must(<-ended)
	fmt.Println("parcels:", countRows(ctx, db, "shop.parcels"), "- messages about them:", countRows(ctx, db, "public.outbox WHERE topic = 'shipped'"))
	// Output:
	// order 1 is shipped, at try 2
	// order 1 is known
	// parcels: 1 - messages about them: 1
}

func countRows(ctx context.Context, db *sql.DB, from string) (n int) {
	must(db.QueryRowContext(ctx, `SELECT count(*) FROM `+from).Scan(&n))
	return n
}
