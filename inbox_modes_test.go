package outbox_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// Poolers force some modes upon their users.
func TestInboxWorksInEveryModeOfTheDrivers(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{}))
	execute(t, pool, `CREATE TABLE public.effects (id text NOT NULL)`)
	inboxes := map[string]func(testing.TB, int, outbox.InboxConfig) *outbox.Inbox{
		"pq binary_parameters": sqlInboxes("postgres", withParameter(t, url, "binary_parameters", "yes")),
	}
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		inboxes["pgx "+mode] = pgxInboxes(withParameter(t, url, "default_query_exec_mode", mode))
		inboxes["stdlib "+mode] = sqlInboxes("pgx", withParameter(t, url, "default_query_exec_mode", mode))
	}
	for name, open := range inboxes {
		t.Run(name, func(t *testing.T) {
			c := consuming{pool, open}
			inbox := c.inbox(t, 1, outbox.InboxConfig{Consumer: name, PublishTopic: name, Retention: time.Hour})
			h := inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				return []*message.Message{message.NewMessage("", []byte("1")), message.NewMessage("", nil)}, inTx(msg.Context(), `INSERT INTO public.effects VALUES ('`+name+`')`)
			})
			keeps := c.inbox(t, 1, outbox.InboxConfig{Consumer: name, Retention: -1}).Middleware(takesEffect)
			require.NoError(t, handle(h, incoming(t, "it's \\ odd, $1")))
			c.fillInbox(t, name, 1, 10, "1 day")
			require.NoError(t, handle(keeps, incoming(t, name)))
			require.NoError(t, handle(keeps, incoming(t, name)))
			require.Equal(t, 2, c.effects(t, name))
			require.Equal(t, 2, c.number(t, `public.outbox WHERE topic = $1`, name))
			forgotten, err := inbox.Prune(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 10, forgotten)
		})
	}
}
