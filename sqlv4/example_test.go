package sqlv4_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
	"github.com/watermill-outbox/watermill-outbox/sqlv4"
)

// Write with v4's own publisher, in the caller's transaction.
func announce(tx pgx.Tx, texts ...string) error {
	publisher, err := wsql.NewPublisher(wsql.TxFromPgx(tx), wsql.PublisherConfig{SchemaAdapter: sqlv4.SchemaAdapter{}}, nil)
	if err != nil {
		return err
	}
	var news []*message.Message
	for _, text := range texts {
		news = append(news, message.NewMessage(watermill.NewUUID(), []byte(text)))
	}
	return publisher.Publish("news", news...)
}

// Consume with v4's own subscriber, on a pgx pool: straight from the table, without a broker.
func newsSubscriber(pool *pgxpool.Pool) (*wsql.Subscriber, error) {
	return wsql.NewSubscriber(wsql.BeginnerFromPgx(pool), wsql.SubscriberConfig{
		SchemaAdapter:  sqlv4.SchemaAdapter{BatchSize: 10},
		OffsetsAdapter: sqlv4.OffsetsAdapter{},
		PollInterval:   10 * time.Millisecond,
		ResendInterval: 10 * time.Millisecond,
	}, nil)
}

// Three pieces of news are one batch, in the middle of which the subscriber is closed. The next one goes on where the
// consumer was: what was acked is settled, and nothing else.
func ExampleSchemaAdapter() {
	ctx := context.Background()
	server, err := pgtest.Run(ctx)
	must(err)
	defer func() { must(server.Stop()) }()
	pool, err := pgxpool.New(ctx, server.URL)
	must(err)
	defer pool.Close()
	must(outbox.Migrate(ctx, pool, outbox.Schema{TopicIndex: true}))
	must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return announce(tx, "the shop opens", "a queue forms", "the shop closes")
	}))

	first, err := newsSubscriber(pool)
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
	must(first.Close())

	second, err := newsSubscriber(pool)
	must(err)
	news, err = second.Subscribe(ctx, "news")
	must(err)
	for range 2 {
		msg = <-news
		fmt.Println("acks:  ", string(msg.Payload))
		msg.Ack()
	}
	for left := 1; left > 0; {
		must(pool.QueryRow(ctx, `SELECT count(*) FROM public.outbox`).Scan(&left))
	}
	must(second.Close())
	fmt.Println("nothing is left")
	// Output:
	// fails:  the shop opens
	// acks:   the shop opens
	// closes: a queue forms
	// acks:   a queue forms
	// acks:   the shop closes
	// nothing is left
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
