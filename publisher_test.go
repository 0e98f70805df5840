package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// writing is a database with an outbox, and ways to it.
type writing struct {
	url  string
	pool *pgxpool.Pool
	db   *sql.DB
}

func newWriting(t *testing.T) writing {
	t.Helper()
	w := writing{url: testdb.URL(t)}
	w.pool = testdb.Open(t, w.url)
	require.NoError(t, outbox.Migrate(t.Context(), w.pool, outbox.Schema{}))
	w.db = openSQL(t, "pgx", w.url)
	return w
}

func openSQL(t testing.TB, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func (w writing) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := w.pool.Exec(t.Context(), query, args...)
	require.NoError(t, err)
}

func (w writing) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := w.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // done already, unless the test has failed
	return tx
}

// stored is a row of the outbox.
type stored struct {
	ID               int64
	Lane             int16
	Topic, Key, UUID string
	Payload          []byte
	Metadata         map[string]string
	Due              *time.Time
}

func (w writing) stored(t *testing.T) []stored {
	t.Helper()
	rows, err := w.pool.Query(t.Context(),
		`SELECT id, lane, topic, key, uuid, payload, metadata, next_attempt_at FROM public.outbox ORDER BY id`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	require.NoError(t, err)
	return all
}

func publisherOf(t *testing.T, tx outbox.SQLExecutor, config outbox.PublisherConfig) *outbox.Publisher {
	t.Helper()
	publisher, err := outbox.NewPublisher(tx, config, nil)
	require.NoError(t, err)
	return publisher
}

func text(uuid, payload string) *message.Message { return message.NewMessage(uuid, []byte(payload)) }

func TestPublishIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	objects := func() (n int) {
		require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_class`).Scan(&n))
		return n
	}
	before := objects()

	tx := w.begin(t)
	require.NoError(t, publisherOf(t, tx, outbox.PublisherConfig{}).Publish("orders", text("a", "rolled back"), text("b", "")))
	require.Empty(t, w.stored(t), "visible before the commit")
	require.NoError(t, tx.Rollback())
	require.Empty(t, w.stored(t))

	tx = w.begin(t)
	require.NoError(t, publisherOf(t, tx, outbox.PublisherConfig{}).Publish("orders", text("c", "committed")))
	require.NoError(t, tx.Commit())
	rows := w.stored(t)
	require.Len(t, rows, 1)
	require.Equal(t, "c", rows[0].UUID)
	require.Equal(t, before, objects(), "Publish has created something")
}

func TestSavepointTakesItsMessagesBack(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	err := pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
		publisher, err := outbox.NewPgxPublisher(tx, outbox.PublisherConfig{}, nil)
		require.NoError(t, err)
		require.NoError(t, publisher.Publish("orders", text("before", "")))
		savepoint, err := tx.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, publisher.WithPgxTx(savepoint).Publish("orders", text("inside 1", ""), text("inside 2", "")))
		require.NoError(t, savepoint.Rollback(t.Context()))
		return publisher.Publish("orders", text("after", ""))
	})
	require.NoError(t, err)
	rows := w.stored(t)
	require.Len(t, rows, 2)
	require.Equal(t, []string{"before", "after"}, []string{rows[0].UUID, rows[1].UUID})
}

func TestWriterNeedsOnlyInsertAndTheSequence(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	role := testdb.Random("writer_")
	w.exec(t, fmt.Sprintf(`CREATE ROLE %s`, role))
	t.Cleanup(func() {
		_, err := w.pool.Exec(context.WithoutCancel(t.Context()), fmt.Sprintf(`DROP OWNED BY %s; DROP ROLE %s`, role, role))
		require.NoError(t, err)
	})
	w.exec(t, fmt.Sprintf(`GRANT INSERT ON public.outbox TO %s; GRANT USAGE ON SEQUENCE public.outbox_id_seq TO %s`, role, role))

	tx := w.begin(t)
	_, err := tx.ExecContext(t.Context(), `SET LOCAL ROLE `+role)
	require.NoError(t, err)
	publisher := publisherOf(t, tx, outbox.PublisherConfig{})
	require.NoError(t, publisher.Publish("orders", text("a", "one")))
	require.NoError(t, publisher.Publish("orders", text("b", "several"), text("c", "")))
	require.NoError(t, tx.Commit())
	require.Len(t, w.stored(t), 3)
}

func TestLaneIsTheTriggers(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	publisher := publisherOf(t, w.db, outbox.PublisherConfig{})
	var several []*message.Message
	for i, key := range []string{"", "a", "A", "ключ", "Ω\U0010ffff", `"quoted" \ {,}`, "NULL", " ", strings.Repeat("k", 2048)} {
		msg := text(fmt.Sprint("uuid ", i, key), "")
		outbox.SetKey(msg, key)
		require.NoError(t, publisher.Publish("lanes", msg))
		several = append(several, msg)
	}
	require.NoError(t, publisher.Publish("lanes", several...))
	for _, row := range w.stored(t) {
		var lane int16
		require.NoError(t, w.pool.QueryRow(t.Context(),
			`INSERT INTO public.outbox (topic, key, uuid) VALUES ('by hand', $1, $2) RETURNING lane`, row.Key, row.UUID).Scan(&lane))
		require.Equal(t, lane, row.Lane, "key %q", row.Key)
	}
}

func TestLongNamesAndNoName(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	publisher := publisherOf(t, w.db, outbox.PublisherConfig{})
	topic := strings.Repeat("t", 300)
	for _, length := range []int{37, 300} {
		require.NoError(t, publisher.Publish(topic, text(strings.Repeat("u", length), "")))
	}
	unnamed := []*message.Message{text("", ""), {}}
	require.NoError(t, publisher.Publish(topic, unnamed...))
	require.NotEqual(t, unnamed[0].UUID, unnamed[1].UUID)

	rows := w.stored(t)
	require.Len(t, rows, 4)
	require.Len(t, rows[0].UUID, 37)
	require.Len(t, rows[1].UUID, 300)
	for i, row := range rows {
		require.Equal(t, topic, row.Topic)
		if i > 1 {
			require.Len(t, row.UUID, 36)
			require.Equal(t, unnamed[i-2].UUID, row.UUID, "the message has the uuid that was stored")
		}
	}
}

func TestOddTableNames(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	schema := outbox.Schema{Name: `My "Shop"`, Table: `Out-Box.{outbox}'x\`}
	require.NoError(t, outbox.Migrate(t.Context(), w.pool, schema))
	publisher := publisherOf(t, w.db, outbox.PublisherConfig{Schema: schema})
	require.NoError(t, publisher.Publish("orders", text("a", "")))
	require.NoError(t, publisher.Publish("orders", text("b", ""), text("c", "")))
	var n int
	require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT count(*) FROM `+schema.String()).Scan(&n))
	require.Equal(t, 3, n)
	require.Empty(t, w.stored(t), "rows in the other outbox")
}
