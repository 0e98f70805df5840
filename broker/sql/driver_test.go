package sql_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/sql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestURLsThatAreRefused(t *testing.T) {
	for url, part := range map[string]string{
		"postgres://u:hidden@h/d?auto_initialize=perhaps":                "auto_initialize",
		"postgres://u:hidden@h/d?poll_interval=0s":                       "poll_interval",
		"postgres://u:hidden@h/d?ack_deadline=1":                         "ack_deadline",
		"postgres://u:hidden@h/d?sslmode=hopefully":                      "url",
		"postgres://u:hidden@h/d?pool_max_conns=none&sslpassword=hidden": "url",
		"postgres://u@h/d?pool_max_conns=none&password=hidden":           "url",
		"postgres://u:hidden@[::1/d":                                     "host",
		"postgresql://u:hidden@h:port/d":                                 "url",
	} {
		_, err := broker.NewMux(sql.Driver{}).Open(t.Context(), url, broker.Options{})
		var wrong *broker.URLError
		require.ErrorAs(t, err, &wrong, url)
		require.Equal(t, part, wrong.Part, url)
		var parse *pgconn.ParseConfigError
		require.NotErrorAs(t, err, &parse, "it has the connection string")
		require.NotContains(t, err.Error(), "hidden")
	}
}

// Whatever it is that keeps everybody out, no message is to blame.
func TestWhatKeepsUsOutIsAnOutageAndTellsNoPassword(t *testing.T) {
	server := testdb.Dedicated(t)
	base := with(testdb.Create(t, server), "search_path=public")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	const demandPasswords = `DO $$ BEGIN EXECUTE format('COPY (VALUES (''host all postgres all trust''),
		(''host all all all scram-sha-256'')) TO %L', current_setting('hba_file')); END $$`
	execute(t, base, demandPasswords, `CREATE ROLE locked_out LOGIN PASSWORD 'right'`)
	require.NoError(t, server.Restart(t.Context()))
	change := func(f func(*neturl.URL)) string {
		u, err := neturl.Parse(base)
		require.NoError(t, err)
		u.User = neturl.UserPassword(u.User.Username(), "hidden")
		f(u)
		return u.String()
	}
	require.NoError(t, open(t, change(func(u *neturl.URL) { u.User = neturl.UserPassword("locked_out", "right") }), "").Ping(t.Context()))
	require.NoError(t, open(t, with(change(func(u *neturl.URL) { u.User = neturl.User("locked_out") }), "password=right"), "").Ping(t.Context()))
	for reason, url := range map[string]string{
		"connection refused": change(func(u *neturl.URL) { u.Host = listener.Addr().String() }),
		"no such host":       change(func(u *neturl.URL) { u.Host = "no-such-host.invalid:5432" }),
		"SQLSTATE 28P01":     change(func(u *neturl.URL) { u.User = neturl.UserPassword("locked_out", "hidden") }),
		"SQLSTATE 3D000":     change(func(u *neturl.URL) { u.Path = "/no_such_database"; u.User = neturl.User("postgres") }),
		"SQLSTATE 42704":     with(base, "no_such_parameter=1"),
	} {
		t.Run(reason, func(t *testing.T) {
			b := open(t, url, "g")
			for _, err := range publishBatch(t, b, outgoing("t", "", "1"), outgoing("u", "", "2")) {
				require.ErrorContains(t, err, reason)
				require.Equal(t, outbox.FailureOutage, b.Classify(err), "%v", err)
				require.NotContains(t, err.Error(), "hidden")
			}
			err := b.Ping(t.Context())
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hidden")
			s, err := b.Subscriber()
			require.NoError(t, err)
			_, err = s.Subscribe(t.Context(), "t")
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hidden")
		})
	}
}

func TestWhatTheURLDoesNotSayTheOptionsDo(t *testing.T) {
	u, err := neturl.Parse(newDatabase(t))
	require.NoError(t, err)
	password, _ := u.User.Password()
	options := broker.Options{User: u.User.Username(), Password: password}
	u.User = nil
	b, err := broker.NewMux(sql.Driver{}).Open(t.Context(), u.String(), options)
	require.NoError(t, err)
	require.NoError(t, b.Ping(t.Context()))
	require.NoError(t, b.Close())
	_, err = b.Subscriber()
	require.Error(t, err)
}

func TestASubscriberNeedsAGroup(t *testing.T) {
	_, err := open(t, newDatabase(t), "").Subscriber()
	require.ErrorIs(t, err, broker.ErrNoGroup)
}

func TestSeveralHostsAreTriedInTurn(t *testing.T) {
	base := newDatabase(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	u, err := neturl.Parse(base)
	require.NoError(t, err)
	user := ""
	if u.User != nil {
		user = u.User.String() + "@"
	}
	b := open(t, fmt.Sprintf("postgres://%s%s,%s%s?%s", user, listener.Addr(), u.Host, u.Path, u.RawQuery), "")
	require.NoError(t, b.Ping(t.Context()))
}

func TestClassifyByTheServersCode(t *testing.T) {
	b := open(t, "postgres://localhost/d", "")
	for code, want := range map[string]outbox.FailureKind{
		"22001": outbox.FailurePermanent, "54000": outbox.FailurePermanent, "42501": outbox.FailurePermanent,
		"08006": outbox.FailureOutage, "25006": outbox.FailureOutage, "40P01": outbox.FailureOutage, "53300": outbox.FailureOutage,
		"55P03": outbox.FailureOutage, "57P01": outbox.FailureOutage, "57014": outbox.FailureOutage, "58030": outbox.FailureOutage,
		"23514": outbox.FailureUnknown, "42P01": outbox.FailureUnknown, "XX000": outbox.FailureUnknown, "": outbox.FailureUnknown,
	} {
		require.Equal(t, want, b.Classify(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code})), code)
	}
	require.Equal(t, outbox.FailureOutage, b.Classify(context.DeadlineExceeded))
	require.Equal(t, outbox.FailureOutage, b.Classify(fmt.Errorf("wrapped: %w", unsent{})))
	require.Equal(t, outbox.FailureUnknown, b.Classify(errors.New("x")))
}

// unsent is what pgx's errors are when nothing was sent, on a connection that is closed for instance.
type unsent struct{}

func (unsent) Error() string     { return "conn closed" }
func (unsent) SafeToRetry() bool { return true }
