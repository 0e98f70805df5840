package outbox_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// publishOrders publishes a customer's orders, to arrive one after the other.
func publishOrders(ctx context.Context, pool *pgxpool.Pool, customer string, orders ...string) {
	publisher, err := outbox.NewPgxPublisher(pool, outbox.PublisherConfig{}, nil)
	must(err)
	for _, order := range orders {
		msg := message.NewMessageWithContext(ctx, watermill.NewUUID(), []byte(order))
		outbox.SetKey(msg, customer)
		must(publisher.Publish("orders", msg))
	}
}

// forwardAll forwards what there is, and returns.
func forwardAll(ctx context.Context, pool *pgxpool.Pool, broker message.Publisher) {
	forwarder, err := outbox.NewForwarder(pool, broker, outbox.ForwarderConfig{}, nil)
	must(err)
	_, err = forwarder.RunOnce(ctx)
	must(err)
}

// One of alice's orders can't be published: it is a dead letter, and the ones behind it follow it there, so that none
// overtakes it. Bob's don't wait. When the broker is repaired an operator sends alice's again, and they arrive in order.
func ExampleDeadLetters() {
	ctx := context.Background()
	pool, _, closeDatabase := openExampleDatabase(ctx)
	defer closeDatabase()
	must(outbox.Migrate(ctx, pool, outbox.Schema{}))
	broker := &choosyBroker{}

	publishOrders(ctx, pool, "alice", "1: now", "2: für später", "3: now")
	publishOrders(ctx, pool, "bob", "1: now")
	forwardAll(ctx, pool, broker)
	publishOrders(ctx, pool, "alice", "4: now")
	forwardAll(ctx, pool, broker)
	fmt.Println("alice has", strings.Join(broker.taken["alice"], ", "))
	fmt.Println("bob has", strings.Join(broker.taken["bob"], ", "))

	letters, err := outbox.NewDeadLetters(pool, outbox.Schema{})
	must(err)
	dead, err := letters.List(ctx, outbox.DeadLetterFilter{Topic: "orders"})
	must(err)
	for _, letter := range dead {
		why := letter.LastError
		if letter.Tail {
			why = "it came after that"
		}
		fmt.Printf("dead: %q of %s, %d attempts: %s\n", letter.Payload, letter.Key, letter.Attempts, why)
	}

	broker.repair()
	n, err := letters.Requeue(ctx, outbox.DeadLetterFilter{ErrorContains: "umlauts"})
	must(err)
	fmt.Println("requeued", n)                  // the key as a whole
	publishOrders(ctx, pool, "alice", "5: now") // which has to wait its turn
	forwardAll(ctx, pool, broker)
	fmt.Println("alice has", strings.Join(broker.taken["alice"], ", "))
	// Output:
	// alice has 1: now
	// bob has 1: now
	// dead: "2: für später" of alice, 1 attempts: umlauts are not supported
	// dead: "3: now" of alice, 0 attempts: it came after that
	// dead: "4: now" of alice, 0 attempts: it came after that
	// requeued 3
	// alice has 1: now, 2: für später, 3: now, 4: now, 5: now
}
