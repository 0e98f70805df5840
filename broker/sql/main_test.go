package sql_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/sql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

const patience = brokertest.Patience

var (
	publishBatch, outgoing = brokertest.PublishBatch, brokertest.Outgoing
	subscribe              = brokertest.Messages
	next, take             = brokertest.Receive, brokertest.ReceiveAll
)

func TestMain(m *testing.M) { testdb.Main(m) }

// with gives a database's URL with one more parameter, and the tables in schema public.
func with(t testing.TB, databaseURL string, parameters ...string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	query := u.Query()
	query.Set("schema", "public")
	for i := 0; i < len(parameters); i += 2 {
		query.Set(parameters[i], parameters[i+1])
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// open opens a database for a group that may be empty.
func open(t testing.TB, brokerURL, group string) broker.Broker {
	t.Helper()
	return brokertest.Open(t, sql.Driver{}, brokerURL, group)
}

// tooLong gives a message with a uuid that the column can't take.
func tooLong(topic, key string) outbox.Outgoing {
	out := outgoing(topic, key, "too long")
	out.Message.UUID = fmt.Sprintf("%037d", 1)
	return out
}

// stored gives the payloads of a topic, in order.
func stored(t testing.TB, pool *pgxpool.Pool, topic string) []string {
	t.Helper()
	table := pgx.Identifier{"public", "watermill_" + topic}.Sanitize()
	rows, err := pool.Query(t.Context(), `SELECT payload FROM `+table+` ORDER BY transaction_id, "offset"`)
	require.NoError(t, err)
	payloads, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	require.NoError(t, err)
	texts := []string{}
	for _, payload := range payloads {
		texts = append(texts, string(payload))
	}
	return texts
}

func execute(t testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
}
