package outbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// publishWith publishes in a transaction of one driver in one mode, and commits.
type publishWith func(t *testing.T, config outbox.PublisherConfig, calls func(*outbox.Publisher))

// drivers are all ways to the database that Publishers are used with.
func drivers(t *testing.T, w writing) map[string]publishWith {
	t.Helper()
	all := map[string]publishWith{
		"pq":                   withSQL("postgres", w.url),
		"pq/binary_parameters": withSQL("postgres", withParameter(t, w.url, "binary_parameters", "yes")),
		"wrapped":              withWrapped(w.url),
	}
	for name, mode := range map[string]pgx.QueryExecMode{
		"cache_statement": pgx.QueryExecModeCacheStatement, "cache_describe": pgx.QueryExecModeCacheDescribe,
		"describe_exec": pgx.QueryExecModeDescribeExec, "exec": pgx.QueryExecModeExec,
		"simple_protocol": pgx.QueryExecModeSimpleProtocol,
	} {
		all["pgx/"+name] = withPgx(w.url, mode)
		all["stdlib/"+name] = withSQL("pgx", withParameter(t, w.url, "default_query_exec_mode", name))
	}
	return all
}

func withParameter(t *testing.T, raw, name, value string) string {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

func withSQL(driver, url string) publishWith {
	return func(t *testing.T, config outbox.PublisherConfig, calls func(*outbox.Publisher)) {
		t.Helper()
		tx, err := openSQL(t, driver, url).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		calls(publisherOf(t, tx, config))
		require.NoError(t, tx.Commit())
	}
}

// withWrapped stands for sqlx, ent and the like: a struct of their own around *sql.Tx.
func withWrapped(url string) publishWith {
	type wrapped struct{ *sql.Tx }
	return func(t *testing.T, config outbox.PublisherConfig, calls func(*outbox.Publisher)) {
		t.Helper()
		tx, err := openSQL(t, "pgx", url).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		calls(publisherOf(t, wrapped{tx}, config))
		require.NoError(t, tx.Commit())
	}
}

func withPgx(url string, mode pgx.QueryExecMode) publishWith {
	return func(t *testing.T, config outbox.PublisherConfig, calls func(*outbox.Publisher)) {
		t.Helper()
		connConfig, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		connConfig.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), connConfig)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
		require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			publisher, err := outbox.NewPgxPublisher(tx, config, nil)
			require.NoError(t, err)
			calls(publisher)
			return nil
		}))
	}
}

// oddMessages are what encodings get wrong.
func oddMessages() []*message.Message {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	random := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(random) // never fails
	payloads := [][]byte{
		{0x0a, 0x03, 0x61, 0x62}, {}, nil, []byte(`{"not": json`), every, random, []byte(`\x4142`), []byte(`\\ '' "" $1`), {0}, {0xff},
	}
	texts := []string{
		"", `"`, `\`, `\\"\"`, "'", "''; --", "NULL", "null", "{", "}", "{a,b}", ",", " ", "\t\r\n\b\f", "\x01\x1f\x7f", "\u0080\u2028\ufffd\ufeff",
		"ключ", "日本語", "e\u0301", "👩‍🚀\U0010ffff", "<&>", `\u0000`, `\x00`, "$1", "?", "%s", strings.Repeat(`"\`, 200),
	}
	var messages []*message.Message
	for i, payload := range payloads {
		messages = append(messages, message.NewMessage(fmt.Sprint("payload ", i), payload))
	}
	all := message.NewMessage("all texts", []byte("x"))
	for i, s := range texts {
		msg := message.NewMessage(fmt.Sprintf("%d %s", i, s), []byte(s))
		msg.Metadata.Set(s, texts[len(texts)-1-i])
		outbox.SetKey(msg, s)
		all.Metadata.Set(s, s)
		messages = append(messages, msg)
	}
	return append(messages, all, &message.Message{UUID: "no metadata map"})
}

func TestEveryDriverStoresWhatItIsGiven(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	messages := oddMessages()
	for name, publish := range drivers(t, w) {
		t.Run(name, func(t *testing.T) {
			w.exec(t, `TRUNCATE public.outbox`)
			topic := `orders "\{NULL,'x'} ` + name
			publish(t, outbox.PublisherConfig{}, func(publisher *outbox.Publisher) {
				for _, msg := range messages {
					require.NoError(t, publisher.Publish(topic, msg))
				}
				require.NoError(t, publisher.Publish(topic, messages...))
				require.NoError(t, publisher.Publish(topic, message.NewMessage("nil", nil), message.NewMessage("empty", []byte{})))
			})
			rows := w.stored(t)
			require.Len(t, rows, 2*len(messages)+2)
			for i, row := range rows[:2*len(messages)] {
				requireStored(t, topic, messages[i%len(messages)], row)
			}
			require.Nil(t, rows[2*len(messages)].Payload)
			require.NotNil(t, rows[2*len(messages)+1].Payload)
		})
	}
}

func requireStored(t *testing.T, topic string, msg *message.Message, row stored) {
	t.Helper()
	require.Equal(t, topic, row.Topic)
	require.Equal(t, msg.UUID, row.UUID)
	require.Equal(t, outbox.Key(msg), row.Key, msg.UUID)
	require.True(t, bytes.Equal(msg.Payload, row.Payload), msg.UUID)
	require.Equal(t, msg.Payload == nil, row.Payload == nil, "NULL stays NULL, empty stays empty: %s", msg.UUID)
	require.Len(t, row.Metadata, len(msg.Metadata), msg.UUID)
	for name, value := range msg.Metadata {
		require.Equal(t, value, row.Metadata[name], "%s: %q", msg.UUID, name)
	}
	require.Nil(t, row.Due, msg.UUID)
}
