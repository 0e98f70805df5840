package outbox_test

import (
	"context"
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/stretchr/testify/require"
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
