package sql_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/sql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

const tick = 20 * time.Millisecond

// The same publisher and the same subscription go on after the server was killed, and after a restart.
func TestAfterTheServerWasDown(t *testing.T) {
	server := testdb.Dedicated(t)
	b := open(t, with(t, testdb.Create(t, server)), "group")
	messages := subscribe(t, b, "topic")
	require.NoError(t, publishBatch(t, b, outgoing("topic", "", "1"))[0])
	require.Equal(t, []string{"1"}, take(t, messages, 1))

	require.NoError(t, server.Kill())
	for range 3 { // the first tries meet connections of the pool, the others none
		err := publishBatch(t, b, outgoing("topic", "", "lost"))[0]
		require.Equal(t, outbox.FailureOutage, b.Classify(err), "%v", err)
	}
	require.Error(t, b.Ping(t.Context()))
	require.NoError(t, server.Restart(t.Context()))
	require.NoError(t, b.Ping(t.Context()))
	require.NoError(t, publishBatch(t, b, outgoing("topic", "", "2"))[0])
	takeUntil(t, messages, "2")

	require.NoError(t, server.Restart(t.Context()))
	require.Eventually(t, func() bool { // what the pool has is dead, and it may be the server that says so
		err := publishBatch(t, b, outgoing("topic", "", "3"))[0]
		require.True(t, err == nil || b.Classify(err) == outbox.FailureOutage, "%v", err)
		return err == nil
	}, patience, tick)
	takeUntil(t, messages, "3")
}

// takeUntil acks messages until one has come: what was acked just before a server ended may come again.
func takeUntil(t testing.TB, messages <-chan *message.Message, payload string) {
	t.Helper()
	for take(t, messages, 1)[0] != payload {
		continue
	}
}

func TestWhatIsAnOutage(t *testing.T) {
	databaseURL := testdb.URL(t)
	pool := testdb.Open(t, databaseURL)
	require.NoError(t, publishBatch(t, open(t, with(t, databaseURL), ""), outgoing("topic", "", "1"))[0])
	role, roleURL := testdb.Role(t, databaseURL)
	quoted := pgx.Identifier{role}.Sanitize()
	execute(t, pool, `GRANT ALL ON ALL TABLES IN SCHEMA public TO `+quoted+`; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO `+quoted)
	for _, test := range []struct{ name, url, prepare, code string }{
		{"refused", "postgres://user:sesame@127.0.0.1:1/db", ``, ""},
		{"no such host", "postgres://user:sesame@nowhere.invalid/db", ``, ""},
		{"a database that is missing", replacePath(t, databaseURL, "/missing"), ``, "3D000"},
		{"read only", roleURL, `SET default_transaction_read_only = on`, "25006"},
		{"cancelled", roleURL, `SET statement_timeout = 1`, "57014"},
		{"too many connections", roleURL, `CONNECTION LIMIT 0`, "53300"},
		{"not allowed to log in", roleURL, `NOLOGIN`, "28000"},
		{"not allowed to connect", roleURL, ``, "42501"},
	} {
		t.Run(test.name, func(t *testing.T) {
			execute(t, pool, `ALTER ROLE `+quoted+` RESET ALL; ALTER ROLE `+quoted+` LOGIN CONNECTION LIMIT -1`)
			if test.prepare != "" {
				execute(t, pool, `ALTER ROLE `+quoted+` `+test.prepare)
			}
			if test.code == "42501" {
				execute(t, pool, `DO $$ BEGIN EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database()); END $$`)
			}
			if test.code == "57014" {
				tx, err := pool.Begin(t.Context())
				require.NoError(t, err)
				defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
				_, err = tx.Exec(t.Context(), `LOCK TABLE public.watermill_topic`)
				require.NoError(t, err)
			}
			b := open(t, with(t, test.url), "")
			verdicts := publishBatch(t, b, outgoing("topic", "k", "1"), outgoing("topic", "k", "2"))
			for _, err := range append(verdicts, fmt.Errorf("wrapped: %w", verdicts[0])) {
				require.Equal(t, outbox.FailureOutage, b.Classify(err), "%v", err)
				require.ErrorContains(t, err, test.code)
				require.NotContains(t, err.Error(), "sesame")
			}
		})
	}
	conn, err := pgx.Connect(t.Context(), databaseURL)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	b := open(t, with(t, databaseURL), "")
	statements := &pgx.Batch{}
	statements.Queue("SELECT 1")
	err = conn.SendBatch(t.Context(), statements).Close()
	require.Equal(t, outbox.FailureOutage, b.Classify(err), "%v", err)
	require.Equal(t, outbox.FailureUnknown, b.Classify(fmt.Errorf("something else")))
}

func replacePath(t testing.TB, databaseURL, path string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	u.Path = path
	return u.String()
}

// A password is neither in what is wrong with a URL, nor in what a subscriber logs while the server is away.
func TestNobodyTellsAPassword(t *testing.T) {
	mux := broker.NewMux(sql.Driver{})
	for _, parameters := range []string{"sslmode=maybe", "target_session_attrs=x", "default_query_exec_mode=x", "sslrootcert=/nowhere&sslmode=verify-ca",
		"search_path=x&nonsense=1", "batch_size=0", "schema=" + strings.Repeat("x", 64)} {
		_, err := mux.Open(t.Context(), "postgres://user:ses%27ame@127.0.0.1:1/db?"+parameters, broker.Options{})
		var wrong *broker.URLError
		require.ErrorAs(t, err, &wrong, parameters)
		require.NotContains(t, err.Error(), "ame@")
		require.NotContains(t, err.Error(), "ses")
	}

	server := testdb.Dedicated(t)
	u, err := url.Parse(testdb.Create(t, server))
	require.NoError(t, err)
	u.User = url.UserPassword("postgres", "sesame")
	var log lockedBuffer
	b, err := mux.Open(t.Context(), with(t, u.String()), broker.Options{Group: "group", Logger: watermill.NewStdLoggerWithOut(&log, true, true)})
	require.NoError(t, err)
	subscribe(t, b, "topic")
	require.NoError(t, server.Kill())
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "refused") }, patience, tick)
	require.NoError(t, b.Close())
	require.NotContains(t, log.String(), "sesame")
}

func TestSeveralHosts(t *testing.T) {
	databaseURL := testdb.URL(t)
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	address := u.Host
	u.Host = "two"
	b := open(t, strings.Replace(with(t, u.String()), "@two/", "@127.0.0.1:1,"+address+"/", 1), "")
	require.NoError(t, b.Ping(t.Context()))
	require.NoError(t, publishBatch(t, b, outgoing("topic", "", "1"))[0])
}

func TestParametersWithQuotes(t *testing.T) {
	databaseURL := testdb.URL(t)
	name := `it's \ "mine"`
	b := open(t, with(t, databaseURL, "application_name", name), "")
	require.NoError(t, b.Ping(t.Context()))
	var sessions int
	require.NoError(t, testdb.Open(t, databaseURL).QueryRow(t.Context(),
		`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()`, name).Scan(&sessions))
	require.Equal(t, 1, sessions)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
