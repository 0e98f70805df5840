package outbox_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestInboxConfigReportsEverythingWrongWithIt(t *testing.T) {
	t.Parallel()
	config := outbox.InboxConfig{
		Schema: outbox.Schema{Name: "pg_mine"}, Consumer: strings.Repeat("c", 513), PublishTopic: "a\x00b",
		Publisher: outbox.PublisherConfig{Timeout: -2}, TxTimeout: -2, Retention: -2,
		TxOptions: &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelSnapshot},
	}
	problems := config.Validate()
	for _, text := range []string{
		`outbox: Schema.Name: "pg_mine" begins with pg_`,
		`outbox: InboxConfig.Consumer: "ccc`, `has 513 bytes, at most 512 are allowed`,
		`outbox: InboxConfig.PublishTopic: "a\x00b" has a NUL byte`,
		`outbox: InboxConfig.Publisher: outbox: PublisherConfig.Timeout: -2ns is negative`,
		`outbox: InboxConfig.TxOptions: ReadOnly is set`,
		`outbox: InboxConfig.TxOptions: the isolation level Snapshot is none of Default, Read Committed, Repeatable Read and Serializable`,
		`outbox: InboxConfig.TxTimeout: -2ns is negative; 0 is the default, -1 none`,
		`outbox: InboxConfig.Retention: -2ns is negative; 0 is the default, -1 keeps all`,
	} {
		require.ErrorContains(t, problems, text)
	}
	_, err := outbox.NewInbox(openSQL(t, "pgx", "postgres://nowhere"), config, nil)
	require.EqualError(t, err, problems.Error())
	_, err = outbox.NewInbox(nil, config, nil)
	require.ErrorContains(t, err, "outbox: db: it is nil\noutbox: Schema.Name")
	_, err = outbox.NewPgxInbox(nil, config, nil)
	require.ErrorContains(t, err, "outbox: pool: it is nil\noutbox: Schema.Name")
	require.NoError(t, outbox.InboxConfig{TxTimeout: -1, Retention: -1}.Validate())
}

// All of it is refused before any SQL: this inbox has no database.
func TestInboxRefusesWhatItCouldNotKnowAgain(t *testing.T) {
	t.Parallel()
	nowhere := func(config outbox.InboxConfig) message.HandlerFunc {
		inbox, err := outbox.NewInbox(openSQL(t, "pgx", "postgres://127.0.0.1:1/nowhere"), config, nil)
		require.NoError(t, err)
		return inbox.Middleware(func(*message.Message) ([]*message.Message, error) {
			t.Error("handled")
			return nil, nil
		})
	}
	broken := errors.New("broken")
	finds := func(id string, err error) outbox.InboxConfig {
		return outbox.InboxConfig{Consumer: "c", MessageID: func(*message.Message) (string, error) { return id, err }}
	}
	require.ErrorIs(t, handle(nowhere(outbox.InboxConfig{}), incoming(t, "a")), outbox.ErrNoConsumer)
	require.ErrorIs(t, handle(nowhere(serviceConfig()), incoming(t, "")), outbox.ErrNoMessageID)
	require.ErrorIs(t, handle(nowhere(finds("", nil)), incoming(t, "a")), outbox.ErrNoMessageID)
	require.ErrorIs(t, handle(nowhere(finds("", broken)), incoming(t, "a")), broken)
	require.EqualError(t, handle(nowhere(serviceConfig()), incoming(t, "a\xff")),
		`outbox: message 0 (uuid "a\xff"): id: is not valid UTF-8 at position 1; encode it, as base64 for example`)
	require.ErrorContains(t, handle(nowhere(finds("a\x00", nil)), incoming(t, "a")), "id: has a NUL byte at position 1")
	acked := incoming(t, "a")
	acked.Ack()
	require.ErrorIs(t, handle(nowhere(serviceConfig()), acked), outbox.ErrAlreadyAcked)
}

// Inside an inbox of the same database a message would wait for the row that the outer one has not committed: for ever.
func TestAnInboxInsideAnInboxIsAnErrorAndNoDeadlock(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		inbox, other := c.inbox(t, 1, serviceConfig()), c.inbox(t, 1, outbox.InboxConfig{Consumer: "other"})
		for _, outer := range []*outbox.Inbox{inbox, other} {
			h := outer.Middleware(inbox.Middleware(takesEffect))
			require.ErrorIs(t, handle(h, incoming(t, "a")), outbox.ErrNestedInbox)
		}
		require.Zero(t, c.effects(t, "a")+c.recorded(t, "a"))

		url := testdb.URL(t)
		require.NoError(t, outbox.Migrate(t.Context(), testdb.Open(t, url), outbox.Schema{}))
		elsewhere := pgxInboxes(url)(t, 1, serviceConfig())
		h := elsewhere.Middleware(inbox.Middleware(takesEffect))
		require.NoError(t, handle(h, incoming(t, "a")), "another database's does not wait")
		h = inbox.Middleware(elsewhere.Middleware(inbox.Middleware(takesEffect)))
		require.ErrorIs(t, handle(h, incoming(t, "b")), outbox.ErrNestedInbox, "and does not hide the outer one")
	})
}

func TestInboxSaysWhatIsWrongWithItsTables(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	inbox := pgxInboxes(url)(t, 1, serviceConfig())
	h := inbox.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil })
	err := handle(h, incoming(t, "a"))
	require.ErrorIs(t, err, outbox.ErrSchemaVersion)
	require.ErrorContains(t, err, "run Migrate")
	require.NoError(t, outbox.Migrate(t.Context(), pool, outbox.Schema{}))
	require.NoError(t, handle(h, incoming(t, "a")), "it looks again")

	poor := grantedPool(t, url, outbox.Schema{}, writer)
	lacking, err := outbox.NewPgxInbox(poor, serviceConfig(), nil)
	require.NoError(t, err)
	err = handle(lacking.Middleware(takesEffect), incoming(t, "b"))
	require.ErrorIs(t, err, outbox.ErrSchemaVersion)
	require.ErrorContains(t, err, `GRANT SELECT, INSERT, DELETE ON TABLE "public"."outbox_inbox" TO`)
}

func TestTheConsumersRoleSuffices(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	owner := testdb.Open(t, url)
	require.NoError(t, outbox.Migrate(t.Context(), owner, outbox.Schema{}))
	for name, inbox := range map[string]func(*pgxpool.Pool) (*outbox.Inbox, error){
		"pgx": func(pool *pgxpool.Pool) (*outbox.Inbox, error) {
			return outbox.NewPgxInbox(pool, outbox.InboxConfig{Consumer: "pgx", PublishTopic: "done", Retention: 1}, nil)
		},
		"sql": func(pool *pgxpool.Pool) (*outbox.Inbox, error) {
			return outbox.NewInbox(openSQL(t, "postgres", pool.Config().ConnString()), outbox.InboxConfig{Consumer: "sql", PublishTopic: "done", Retention: 1}, nil)
		},
	} {
		inbox, err := inbox(grantedPool(t, url, outbox.Schema{}, consumer))
		require.NoError(t, err)
		h := inbox.Middleware(func(*message.Message) ([]*message.Message, error) {
			return []*message.Message{message.NewMessage(name, nil)}, nil
		})
		require.NoError(t, handle(h, incoming(t, "a")))
		require.NoError(t, handle(h, incoming(t, "b")))
		_, err = inbox.Prune(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 4, count(t, owner, "topic = 'done'"))
}

// A message may take its context along to where it is handled after the transaction has ended.
func TestAContextThatOutlivesItsInboxIsNotInsideIt(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		inbox := c.inbox(t, 1, serviceConfig())
		var kept *message.Message
		require.NoError(t, handle(inbox.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			kept = message.NewMessageWithContext(msg.Context(), "b", nil)
			return nil, nil
		}), incoming(t, "a")))
		require.NoError(t, handle(inbox.Middleware(takesEffect), kept))
		require.Equal(t, 1, c.effects(t, "b"))
	})
}
