package outbox_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// FuzzPublish publishes a message alone and beside another one. Either it is refused before any SQL, or both rows are
// what was published, to the byte.
func FuzzPublish(f *testing.F) {
	pool := testdb.New(f)
	require.NoError(f, outbox.Migrate(f.Context(), pool, outbox.Schema{}))
	f.Add("orders", "key", "uuid", "name", "value", "other", []byte("payload"))
	f.Add(`"\{`, `}",NULL`, "NULL", "", "\x01\u2028", `\u0000`, []byte{0x0a, 0x03, 0x61, 0x62})
	f.Add("", "\x00", "\xff", "\xed\xa0\x80", "", "'", []byte(nil))
	f.Fuzz(func(t *testing.T, topic, key, uuid, name, value, other string, payload []byte) {
		msg := message.NewMessage(uuid, payload)
		msg.Metadata = message.Metadata{name: value, other: topic}
		config := outbox.PublisherConfig{Key: func(string, *message.Message) (string, error) { return key, nil }}
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			publisher, err := outbox.NewPgxPublisher(tx, config, nil)
			require.NoError(t, err)
			one := publisher.Publish(topic, msg)
			two := publisher.Publish(topic, msg, message.NewMessage("beside", []byte("it")))
			rows, err := tx.Query(t.Context(), `SELECT id, lane, topic, key, uuid, payload, metadata, next_attempt_at FROM public.outbox ORDER BY id`)
			require.NoError(t, err, "the transaction must stay usable")
			all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
			require.NoError(t, err)
			if topic == "" || len(topic) > 2048 || len(key) > 2048 || !storable(topic, key, uuid, name, msg.Metadata[name], other) {
				var refusal *outbox.MessageError
				require.ErrorAs(t, one, &refusal)
				require.ErrorAs(t, two, &refusal)
				require.Empty(t, all)
				return errRolledBack
			}
			require.NoError(t, one)
			require.NoError(t, two)
			require.Len(t, all, 3)
			for _, row := range all[:2] {
				require.Equal(t, stored{
					ID: row.ID, Lane: all[0].Lane, Topic: topic, Key: key, UUID: msg.UUID, Payload: payload, Metadata: msg.Metadata,
				}, row)
			}
			return errRolledBack
		})
		require.ErrorIs(t, err, errRolledBack)
	})
}

func storable(texts ...string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return false
		}
	}
	return true
}
