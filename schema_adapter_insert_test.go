package outbox_test

import (
	"errors"
	"strings"
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func message1(change func(msg *message.Message)) *message.Message {
	msg := message.NewMessage("the-uuid", []byte("payload"))
	change(msg)
	return msg
}

func TestAdapterRefusesWhatThePublisherRefusesBeforeAnySQL(t *testing.T) {
	t.Parallel()
	errOfCheck, errOfKey := errors.New("not in the registry"), errors.New("no customer")
	adapter := outbox.SchemaAdapter{
		MaxPayloadBytes: 100,
		Check: func(_ string, msg *message.Message) error {
			if string(msg.Payload) == "unknown" {
				return errOfCheck
			}
			return nil
		},
		Key: func(_ string, msg *message.Message) (string, error) {
			if string(msg.Payload) == "no customer" {
				return "", errOfKey
			}
			return msg.Metadata["customer"], nil
		},
	}
	refused := map[string]struct {
		msg   *message.Message
		field string
		cause error
	}{
		"NUL in metadata":      {message1(func(msg *message.Message) { msg.Metadata["a"] = "b\x00" }), `metadata["a"]`, nil},
		"invalid UTF-8":        {message1(func(msg *message.Message) { msg.UUID = "\xff" }), "uuid", nil},
		"NUL in the key":       {message1(func(msg *message.Message) { msg.Metadata["customer"] = "\x00" }), "key", nil},
		"a key too long":       {message1(func(msg *message.Message) { msg.Metadata["customer"] = strings.Repeat("k", 2049) }), "key", nil},
		"a payload too large":  {message1(func(msg *message.Message) { msg.Payload = make([]byte, 101) }), "payload", nil},
		"what Check refuses":   {message1(func(msg *message.Message) { msg.Payload = []byte("unknown") }), "check", errOfCheck},
		"what has no key":      {message1(func(msg *message.Message) { msg.Payload = []byte("no customer") }), "key", errOfKey},
		"a nil message":        {nil, "message", nil},
		"a delay that is none": {message1(func(msg *message.Message) { msg.Metadata["_watermill_delayed_for"] = "soon" }), `metadata["_watermill_delayed_for"]`, nil},
	}
	eachDriver(t, func(a adapted) {
		t := a.t
		tx, err := a.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		publisher, err := wsql.NewPublisher(tx, wsql.PublisherConfig{SchemaAdapter: adapter}, nil)
		require.NoError(t, err)
		for name, c := range refused {
			err := publisher.Publish("orders", message1(func(*message.Message) {}), c.msg)
			var refusal *outbox.MessageError
			require.ErrorAs(t, err, &refusal, name)
			require.Equal(t, 1, refusal.Index, name)
			require.Equal(t, c.field, refusal.Field, name)
			if c.cause != nil {
				require.ErrorIs(t, err, c.cause, name)
			}
		}
		require.Error(t, publisher.Publish("", message1(func(*message.Message) {})), "no topic")
		require.NoError(t, publisher.Publish("orders"), "no messages")
		require.NoError(t, publisher.Publish("orders", message1(func(msg *message.Message) { msg.Metadata["customer"] = "alice" })))
		require.NoError(t, publisher.Publish("orders", message.NewMessage("", nil), message.NewMessage("", nil)))
		require.NoError(t, tx.Commit(), "the transaction has stayed usable")
		require.Equal(t, 3, count(t, a.pool, "uuid <> ''"))
		require.Equal(t, 1, count(t, a.pool, "key = 'alice'"))
	})
}

func TestAdapterWritesInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		tx, err := a.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		publisher, err := wsql.NewPublisher(tx, wsql.PublisherConfig{SchemaAdapter: outbox.SchemaAdapter{}}, nil)
		require.NoError(t, err)
		require.NoError(t, publisher.Publish("orders", message.NewMessage("1", nil), message.NewMessage("2", nil)))
		require.NoError(t, publisher.Publish("orders", message.NewMessage("3", nil)))
		require.NoError(t, tx.Rollback())
		require.Zero(t, count(t, a.pool, "true"))
	})
}

func TestAdapterRefusesACallThatOneStatementCannotTake(t *testing.T) {
	t.Parallel()
	large := message.NewMessage("large", make([]byte, 40<<20))
	var refusal *outbox.MessageError
	_, err := outbox.SchemaAdapter{}.InsertQuery("orders", message.Messages{large, message.NewMessage("second", large.Payload)})
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, 1, refusal.Index)
	require.ErrorContains(t, err, "publish fewer messages a call")
	_, err = outbox.SchemaAdapter{}.InsertQuery("orders", message.Messages{large})
	require.NoError(t, err)
}

func TestAdaptersValidateEveryField(t *testing.T) {
	t.Parallel()
	require.NoError(t, outbox.SchemaAdapter{}.Validate())
	require.NoError(t, outbox.SchemaAdapter{BatchSize: 1000, MaxPayloadBytes: -1}.Validate())
	bad := outbox.SchemaAdapter{Schema: outbox.Schema{Name: "pg_x"}, BatchSize: 1001, MaxPayloadBytes: -2}
	for _, says := range []string{"Schema.Name", "SchemaAdapter.BatchSize: 1001", "SchemaAdapter.MaxPayloadBytes: -2"} {
		require.ErrorContains(t, bad.Validate(), says)
		_, err := bad.InsertQuery("orders", nil)
		require.ErrorContains(t, err, says)
	}
	require.ErrorContains(t, outbox.SchemaAdapter{BatchSize: -1}.Validate(), "SchemaAdapter.BatchSize: -1")
	require.NoError(t, outbox.OffsetsAdapter{}.Validate())
	require.ErrorContains(t, outbox.OffsetsAdapter{Schema: outbox.Schema{Table: "a\x00b"}}.Validate(), "Schema.Table")
}
