package outbox_test

import (
	"database/sql"
	"errors"
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// refusedBy gives SQLSTATE and text of the server's error, whichever driver brought it.
func refusedBy(t testing.TB, err error) (code, text string) {
	t.Helper()
	var ofPgx *pgconn.PgError
	if errors.As(err, &ofPgx) {
		return ofPgx.Code, ofPgx.Message
	}
	var ofPq *pq.Error
	require.ErrorAs(t, err, &ofPq)
	return string(ofPq.Code), ofPq.Message
}

func TestSubscribeFailsWhereItCouldNotWork(t *testing.T) {
	t.Parallel()
	group := func(c *wsql.SubscriberConfig) { c.ConsumerGroup = `it's \ "billing"` }
	eachDriver(t, func(a adapted) {
		t := a.t
		_, err := a.subscriber(t, group).Subscribe(t.Context(), "orders")
		code, text := refusedBy(t, err)
		require.Equal(t, "22023", code)
		require.Regexp(t, `^outbox: SubscriberConfig.ConsumerGroup: is .*billing.*; leave it empty,.* or forward to a broker`, text)

		for _, c := range []struct {
			schema     outbox.Schema
			code, says string
		}{
			{outbox.Schema{Name: "not_there"}, "42P01", "not_there"},
			{outbox.Schema{Table: "not_there"}, "42P01", "not_there"},
			{outbox.Schema{Name: `pg_\'$outbox$`}, "22023", "outbox: Schema.Name: "},
			{outbox.Schema{Table: "a\x00b"}, "22023", "outbox: Schema.Table: "},
		} {
			_, err = a.subscriber(t, func(s *wsql.SubscriberConfig) {
				s.SchemaAdapter, s.OffsetsAdapter = outbox.SchemaAdapter{Schema: c.schema}, outbox.OffsetsAdapter{Schema: c.schema}
				s.InitializeSchema = true
			}).Subscribe(t.Context(), "orders")
			code, text = refusedBy(t, err)
			require.Equal(t, c.code, code, text)
			require.Contains(t, text, c.says)
		}
		execute(t, a.pool, `ALTER TABLE public.outbox RENAME COLUMN holds TO other`)
		_, err = a.subscriber(t).Subscribe(t.Context(), "orders")
		code, _ = refusedBy(t, err)
		require.Equal(t, "42703", code)
	})
}

// The other half of a pair of adapters may be of another table, where the rows' places mean other rows.
func TestAdaptersOfDifferentTablesSettleNothing(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(a adapted) {
		t := a.t
		other := outbox.Schema{Name: "other"}
		require.NoError(t, outbox.Migrate(t.Context(), a.pool, other))
		put(t, a.pool, "orders", "", "1")
		query := outbox.SchemaAdapter{}.SelectQuery("orders", "", outbox.OffsetsAdapter{Schema: other})
		_, text := refusedBy(t, fails(t, a.db, query))
		require.Equal(t, `outbox: OffsetsAdapter.Schema: is "other"."outbox", it must be the SchemaAdapter's "public"."outbox"`, text)

		query = outbox.SchemaAdapter{}.SelectQuery("orders", "group", outbox.OffsetsAdapter{})
		_, text = refusedBy(t, fails(t, a.db, query))
		require.Contains(t, text, "outbox: SubscriberConfig.ConsumerGroup")

		query = outbox.SchemaAdapter{BatchSize: -1}.SelectQuery("orders", "", outbox.OffsetsAdapter{})
		_, text = refusedBy(t, fails(t, a.db, query))
		require.Contains(t, text, "outbox: SchemaAdapter.BatchSize: -1")

		row := readOne(t, a.db)
		_, text = refusedBy(t, fails(t, a.db, outbox.OffsetsAdapter{Schema: other}.AckMessageQuery("orders", row, "")))
		require.Contains(t, text, "outbox: OffsetsAdapter.Schema: is")
		_, text = refusedBy(t, fails(t, a.db, outbox.OffsetsAdapter{}.AckMessageQuery("orders", wsql.Row{Offset: 1}, "")))
		require.Contains(t, text, "it must be this library's")
	})
}

// fails gives the error of a query as watermill-sql's subscriber sees it: at once, since it asks for none after the rows.
func fails(t testing.TB, db *sql.DB, query wsql.Query) error {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query.Query, query.Args...)
	if err == nil {
		defer func() { _ = rows.Close() }()
		t.Fatalf("no error, or a late one: %v", rows.Err())
	}
	return err
}

func readOne(t testing.TB, db *sql.DB) wsql.Row {
	t.Helper()
	query := outbox.SchemaAdapter{}.SelectQuery("orders", "", outbox.OffsetsAdapter{})
	row, err := outbox.SchemaAdapter{}.UnmarshalMessage(db.QueryRowContext(t.Context(), query.Query, query.Args...))
	require.NoError(t, err)
	return row
}

func TestSubscriberWorksWithItsGrants(t *testing.T) {
	t.Parallel()
	schema := outbox.Schema{Name: "Shop's", Table: `Out-Box"`, TopicIndex: true}
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			url := testdb.URL(t)
			owner := testdb.Open(t, url)
			require.NoError(t, outbox.Migrate(t.Context(), owner, schema))
			name, roleURL := testdb.Role(t, url)
			a := adapted{t: t, url: roleURL, pool: owner, db: openSQL(t, driver, roleURL)}
			onSchema := func(c *wsql.SubscriberConfig) {
				c.SchemaAdapter, c.OffsetsAdapter = outbox.SchemaAdapter{Schema: schema}, outbox.OffsetsAdapter{Schema: schema}
			}
			_, err := a.subscriber(t, onSchema).Subscribe(t.Context(), "orders")
			code, _ := refusedBy(t, err)
			require.Equal(t, "42501", code)

			grants, err := outbox.Grants(schema, takes, name)
			require.NoError(t, err)
			execute(t, owner, grants)
			execute(t, owner, `REVOKE DELETE ON `+schema.String()+` FROM `+pgx.Identifier{name}.Sanitize())
			_, err = a.subscriber(t, onSchema).Subscribe(t.Context(), "orders")
			code, _ = refusedBy(t, err)
			require.Equal(t, "42501", code, "it could not settle")

			execute(t, owner, grants)
			publisher, err := wsql.NewPublisher(a.db, wsql.PublisherConfig{SchemaAdapter: outbox.SchemaAdapter{Schema: schema}}, nil)
			require.NoError(t, err)
			require.Error(t, publisher.Publish("orders", message.NewMessage("", nil)))
			grants, err = outbox.Grants(schema, writer, name)
			require.NoError(t, err)
			execute(t, owner, grants)
			require.NoError(t, publisher.Publish("orders", message.NewMessage("", []byte("1")), message.NewMessage("", []byte("2"))))
			execute(t, owner, `UPDATE `+schema.String()+` SET key = 'k', holds = true, next_attempt_at = CASE WHEN id = 1 THEN now() ELSE 'infinity' END`)
			require.Equal(t, []string{"1", "2"}, ack(t, a.subscribe(t, "orders", onSchema), 2))
		})
	}
}
