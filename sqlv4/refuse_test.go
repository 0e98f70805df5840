package sqlv4_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
	"github.com/watermill-outbox/watermill-outbox/sqlv4"
)

func TestBadMessagesAreRefusedBeforeAnySQL(t *testing.T) {
	t.Parallel()
	errOfCheck := errors.New("not in the registry")
	adapter := sqlv4.SchemaAdapter{
		Schema: odd, MaxPayloadBytes: 100,
		Key: func(_ string, msg *message.Message) (string, error) { return msg.Metadata["customer"], nil },
		Check: func(_ string, msg *message.Message) error {
			if string(msg.Payload) == "unknown" {
				return errOfCheck
			}
			return nil
		},
	}
	bad := map[string]*message.Message{
		"uuid":          message.NewMessage("\xff", nil),
		"payload":       message.NewMessage("large", make([]byte, 101)),
		"check":         message.NewMessage("unknown", []byte("unknown")),
		"key":           message.NewMessage("key", nil),
		`metadata["a"]`: message.NewMessage("NUL", nil),
	}
	bad["key"].Metadata["customer"] = strings.Repeat("k", 2049)
	bad[`metadata["a"]`].Metadata["a"] = "\x00"
	eachDriver(t, func(a adapted) {
		t := a.t
		tx, err := a.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		publisher, err := wsql.NewPublisher(tx, wsql.PublisherConfig{SchemaAdapter: adapter}, nil)
		require.NoError(t, err)
		good := message.NewMessage("good", nil)
		good.Metadata["customer"] = "alice"
		for field, msg := range bad {
			err := publisher.Publish("orders", good, msg)
			var refusal *outbox.MessageError
			require.ErrorAs(t, err, &refusal, field)
			require.Equal(t, field, refusal.Field)
			require.Equal(t, 1, refusal.Index)
			require.Equal(t, field == "check", errors.Is(err, errOfCheck))
		}
		require.NoError(t, publisher.Publish("orders", good), "the transaction has stayed usable")
		require.Zero(t, a.count("true"), "it is the caller's")
		require.NoError(t, tx.Commit())
		require.Equal(t, 1, a.count("key = 'alice'"))
	})
}

func TestSubscribeFailsWhereItCouldNotWork(t *testing.T) {
	t.Parallel()
	on := func(schema outbox.Schema) func(*wsql.SubscriberConfig) {
		return func(c *wsql.SubscriberConfig) {
			c.SchemaAdapter, c.OffsetsAdapter = sqlv4.SchemaAdapter{Schema: schema}, sqlv4.OffsetsAdapter{Schema: schema}
		}
	}
	cases := []struct {
		change func(*wsql.SubscriberConfig)
		says   string
	}{
		{func(c *wsql.SubscriberConfig) { c.ConsumerGroup = `it's \ "billing"` },
			`outbox: SubscriberConfig.ConsumerGroup: is "it's \\ \"billing\""; leave it empty`},
		{on(outbox.Schema{Name: "not_there"}), "not_there"},
		{on(outbox.Schema{Table: "a\x00b"}), `outbox: Schema.Table: "a\x00b" contains a NUL byte`},
		{on(outbox.Schema{Name: `pg_\'$outbox$`}), `outbox: Schema.Name: "pg_\\'$outbox$" begins with pg_`},
	}
	eachDriver(t, func(a adapted) {
		t := a.t
		for _, c := range cases {
			_, err := a.subscriber(0, c.change).Subscribe(t.Context(), "orders")
			require.ErrorContains(t, err, c.says)
		}
	})
}

func TestSubscribeFailsWithoutTheRightToSettle(t *testing.T) {
	t.Parallel()
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testdb.URL(t)
			role, roleURL := testdb.Role(t, url)
			a := newAdapted(t, testdb.Open(t, url), open(t, roleURL, 10))
			grants, err := outbox.Grants(a.schema, outbox.RoleSubscriber, role)
			require.NoError(t, err)
			a.execute(grants)
			a.execute(`REVOKE DELETE ON ` + a.schema.String() + ` FROM ` + pgx.Identifier{role}.Sanitize())
			_, err = a.subscriber(0).Subscribe(t.Context(), "orders")
			require.ErrorContains(t, err, "permission denied")
			a.execute(grants)
			a.execute(`INSERT INTO ` + a.schema.String() + ` (topic, uuid) VALUES ('orders', '')`)
			require.Equal(t, []string{""}, ack(t, a.subscribe(0), 1))
			a.awaitCount(0)
		})
	}
}

// errorsOfPolls is a BackoffManager that passes on what v4 tells it.
type errorsOfPolls chan error

func (polls errorsOfPolls) HandleError(_ watermill.LoggerAdapter, _ bool, err error) time.Duration {
	select {
	case polls <- err:
	default:
	}
	return time.Millisecond
}

// Each poll fails, with every driver.
func TestPollOfAdaptersThatDoNotFitIsAnError(t *testing.T) {
	t.Parallel()
	other := outbox.Schema{Name: "other"}
	eachDriver(t, func(a adapted) {
		t := a.t
		require.NoError(t, outbox.Migrate(t.Context(), a.pool, other))
		a.put("", "1")
		polls := make(errorsOfPolls, 1)
		s := a.subscriber(0, func(c *wsql.SubscriberConfig) {
			c.OffsetsAdapter, c.BackoffManager = sqlv4.OffsetsAdapter{Schema: other}, polls
		})
		_, err := s.Subscribe(t.Context(), "orders")
		require.NoError(t, err)
		require.ErrorContains(t, <-polls, "outbox: OffsetsAdapter.Schema: is "+other.String()+", it must be the SchemaAdapter's")
		require.Equal(t, 1, a.count("true"))
	})
}

func TestQueriesThatAreRefusedAreErrors(t *testing.T) {
	t.Parallel()
	_, err := sqlv4.SchemaAdapter{BatchSize: -1}.SelectQuery(wsql.SelectQueryParams{Topic: "orders"})
	require.ErrorContains(t, err, "outbox: SchemaAdapter.BatchSize: -1 is not between")
	_, err = sqlv4.SchemaAdapter{}.SelectQuery(wsql.SelectQueryParams{Topic: "orders", ConsumerGroup: "group"})
	require.ErrorContains(t, err, "outbox: SubscriberConfig.ConsumerGroup")
	_, err = sqlv4.OffsetsAdapter{}.AckMessageQuery(wsql.AckMessageQueryParams{LastRow: wsql.Row{Offset: 1}})
	require.ErrorContains(t, err, "it must be this library's")
	bad := sqlv4.SchemaAdapter{Schema: outbox.Schema{Name: "pg_x"}, MaxPayloadBytes: -2}
	require.ErrorContains(t, bad.Validate(), "Schema.Name")
	_, err = bad.InsertQuery(wsql.InsertQueryParams{Topic: "orders"})
	require.EqualError(t, err, bad.Validate().Error())
	require.ErrorContains(t, sqlv4.OffsetsAdapter{Schema: bad.Schema}.Validate(), "Schema.Name")
}

// Taken and released rows must be judged by their newest versions, whatever the database's default.
func TestSubscribersReadWhatIsCommitted(t *testing.T) {
	t.Parallel()
	require.Equal(t, sql.LevelReadCommitted, sqlv4.SchemaAdapter{}.SubscribeIsolationLevel())
}
