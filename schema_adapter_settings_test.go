package outbox_test

import (
	"context"
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// A batch's transaction has nothing to execute until its last message is acked. Cut off before, the whole batch would come
// again and again.
func TestAnInheritedIdleTimeoutDoesNotCutABatchOff(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		for _, test := range []struct{ inherited, want string }{{"50ms", "1h"}, {"1min", "1h"}, {"2h", "2h"}, {"0", "0"}} {
			setForDatabase(t, a.pool, "idle_in_transaction_session_timeout = "+quote(test.inherited))
			a.db.SetMaxIdleConns(0) // so that the setting is inherited
			put(t, a.pool, "orders", "", "one")
			subscriber := a.subscriber(t)
			messages, err := subscriber.Subscribe(context.WithoutCancel(t.Context()), "orders")
			require.NoError(t, err)
			msg := next(t, messages)
			tx, ok := wsql.TxFromContext(msg.Context())
			require.True(t, ok)
			var have string
			require.NoError(t, tx.QueryRow(`SHOW idle_in_transaction_session_timeout`).Scan(&have))
			require.Equal(t, test.want, have)
			msg.Ack()
			a.awaitCount(t, 0)
			require.NoError(t, subscriber.Close())
		}
	})
}

// One row that another encoding has no letters for would stop its topic for ever.
func TestARowThatTheClientsEncodingCannotHoldIsDelivered(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		execute(t, a.pool, `INSERT INTO public.outbox (topic, uuid, metadata) VALUES ('orders', 'odd', '{"漢": "字"}')`)
		setForDatabase(t, a.pool, "client_encoding = LATIN1")
		msg := next(t, a.subscribe(t, "orders"))
		require.Equal(t, "字", msg.Metadata["漢"])
		msg.Ack()
		a.awaitCount(t, 0)
	})
}

// Some modes of drivers read payloads as text, of which they know one form.
func TestPayloadsComeWhateverTheirFormInTheDatabasesSetting(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{TopicIndex: true}))
	setForDatabase(t, pool, "bytea_output = escape")
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			put(t, pool, mode, "", "it's \\ odd \x01")
			a := adapted{t: t, pool: pool, db: openSQL(t, "pgx", withParameter(t, url, "default_query_exec_mode", mode))}
			msg := next(t, a.subscribe(t, mode))
			require.Equal(t, "it's \\ odd \x01", string(msg.Payload))
			msg.Ack()
			a.awaitCount(t, 0)
		})
	}
}
