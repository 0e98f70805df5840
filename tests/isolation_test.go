package tests

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// Outboxes that share a database, a pool, or parts of their names, each with forwarders of its own in this process, have
// nothing to do with one another: each message goes once, to its own broker, and one whose broker hangs delays none else.
func TestOutboxesInOneDatabaseDoNotDisturbOneAnother(t *testing.T) {
	const each, keys = 400, 10
	pool := testdb.Open(t, testdb.URL(t), connections(30))
	schemas := []outbox.Schema{{}, {Table: "outbox2"}, {Name: "other"}, {Name: "My-Schema", Table: `Out"box`}, {Name: "other", Table: "outbox_dead_", NoDoorbell: true}}
	brokers := make([]*outboxBroker, len(schemas))
	for i, schema := range schemas {
		require.NoError(t, outbox.Migrate(t.Context(), pool, schema))
		brokers[i] = &outboxBroker{name: fmt.Sprint("outbox ", i), ledger: newLedger(nil)}
	}
	release := make(chan struct{})
	brokers[0].hangs = release

	for i, schema := range schemas {
		for range 2 {
			f, err := outbox.NewForwarder(pool, brokers[i], outbox.ForwarderConfig{Schema: schema, Workers: 2, BatchSize: 50, PublishTimeout: 2 * patience}, nil)
			require.NoError(t, err)
			start(t, f)
		}
	}
	written := map[string]int{}
	for first := 1; first <= each/keys; first += 10 {
		for i, schema := range schemas {
			for key := range keys {
				written[fmt.Sprint("k", key)] = first + 9
				writeTo(t, pool, schema, fmt.Sprint("outbox ", i), fmt.Sprint("k", key), first, first+9)
			}
		}
	}
	for i := 1; i < len(schemas); i++ {
		await(t, "an outbox beside one that hangs is forwarded", brokers[i].ledger.reached(each))
	}
	require.Zero(t, brokers[0].ledger.count())
	close(release)
	await(t, "the one that hung is forwarded", brokers[0].ledger.reached(each))
	for i, schema := range schemas {
		eventually(t, "everything is settled", func() bool { return count(t, pool, schema.String()) == 0 })
		result := brokers[i].ledger.tally(t, written)
		require.Equal(t, tally{written: each, delivered: each}, result)
	}
}

// outboxBroker takes the messages of one outbox only.
type outboxBroker struct {
	name   string
	ledger *ledger
	hangs  chan struct{}
}

// Publish refuses what belongs elsewhere by leaving it out of the record.
func (b *outboxBroker) Publish(topic string, messages ...*message.Message) error {
	if b.hangs != nil {
		<-b.hangs
	}
	if topic != b.name {
		return outbox.Permanent(fmt.Errorf("a message of %s came to %s", topic, b.name))
	}
	return local{b.ledger, b.name}.Publish(topic, messages...)
}

// Close does nothing.
func (b *outboxBroker) Close() error { return nil }

func writeTo(t testing.TB, db outbox.PgxExecutor, schema outbox.Schema, topic, key string, first, last int) {
	t.Helper()
	publisher, err := outbox.NewPgxPublisher(db, outbox.PublisherConfig{Schema: schema}, nil)
	require.NoError(t, err)
	var batch []*message.Message
	for number := first; number <= last; number++ {
		msg := message.NewMessageWithContext(context.WithoutCancel(t.Context()), "", []byte(strconv.Itoa(number)))
		outbox.SetKey(msg, key)
		batch = append(batch, msg)
	}
	require.NoError(t, publisher.Publish(topic, batch...))
}
