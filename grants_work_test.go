package outbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestInsertOfAWriterRingsADoorbellThatItMayNotRead(t *testing.T) {
	t.Parallel()
	schema := outbox.Schema{Name: "shop", Table: "Out-Box"}
	names := pgsql.Names{Schema: schema.Name, Table: schema.Table}
	url := testdb.URL(t)
	require.NoError(t, outbox.Migrate(t.Context(), testdb.Open(t, url), schema))
	sleeper, w := grantedPool(t, url, schema, forwards), grantedPool(t, url, schema, writer)

	conn, err := sleeper.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, statement := range []string{pgsql.Render(names).ListenBell, "SELECT setval('" + names.Relation("doorbell") + "', 1, true)"} {
		_, err = conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	require.False(t, permitted(t, w, pgsql.Render(names).ReadBell))
	execute(t, w, "INSERT INTO "+schema.String()+" (topic, uuid) VALUES ('t', 'u')")
	notification, err := conn.Conn().WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Equal(t, names.Channel(), notification.Channel)
}

func TestWriterForwarderAndOperatorWorkWithTheirGrants(t *testing.T) {
	t.Parallel()
	schema := outbox.Schema{Name: "shop"}
	url := testdb.URL(t)
	owner := testdb.Open(t, url)
	require.NoError(t, outbox.Migrate(t.Context(), owner, schema))
	publisher, err := outbox.NewPgxPublisher(grantedPool(t, url, schema, writer), outbox.PublisherConfig{Schema: schema}, nil)
	require.NoError(t, err)
	var messages []*message.Message
	for _, payload := range []string{"good", "bad", "behind the bad one"} {
		msg := message.NewMessage(payload, []byte(payload))
		if payload != "good" {
			outbox.SetKey(msg, "k")
		}
		messages = append(messages, msg)
	}
	require.NoError(t, publisher.Publish("t", messages...))
	require.NoError(t, publisher.Publish("t", message.NewMessage("alone", nil)))

	b := newBroker()
	b.fail = func(_ string, msg *message.Message) error {
		if msg.UUID == "bad" {
			return outbox.Permanent(errors.New("refused"))
		}
		return nil
	}
	f := forwarder(t, grantedPool(t, url, schema, forwards), b, outbox.ForwarderConfig{Schema: schema})
	forwarded, err := f.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, forwarded)

	stats, err := outbox.ReadStats(t.Context(), grantedPool(t, url, schema, operator), schema)
	require.NoError(t, err)
	require.Equal(t, outbox.Stats{Dead: 2, QuarantinedKeys: 1}, stats)

	letters, err := outbox.NewDeadLetters(grantedPool(t, url, schema, operator), schema)
	require.NoError(t, err)
	for _, operate := range []func(context.Context, outbox.DeadLetterFilter) (int64, error){letters.Requeue, letters.Discard} {
		listed, err := letters.List(t.Context(), outbox.DeadLetterFilter{})
		require.NoError(t, err)
		require.Len(t, listed, 2)
		_, err = operate(t.Context(), outbox.DeadLetterFilter{UUID: "bad"}) // with a tail, which is released
		require.NoError(t, err)
		_, err = f.RunOnce(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, []string{"behind the bad one"}, b.payloads("k"))
	require.ErrorIs(t, outbox.CheckSchema(t.Context(), grantedPool(t, url, schema, writer), schema), outbox.ErrSchemaVersion)
}
