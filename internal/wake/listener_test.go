package wake_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
	"github.com/watermill-outbox/watermill-outbox/internal/wake"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestAListenerRingsAtItsStartAtEachNotificationAndAfterALoss(t *testing.T) {
	pool := testdb.New(t)
	var refuse atomic.Bool
	failures := make(chan error, 100)
	pids := make(chan uint32, 100)
	bell := wake.NewBell()
	l := &wake.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			if refuse.Swap(false) {
				return nil, errors.New("refused")
			}
			conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
			if err == nil {
				pids <- conn.PgConn().PID()
			}
			return conn, err
		},
		Listen: `LISTEN "The Channel"`,
		Bell:   bell,
		Failed: func(err error) { failures <- err },
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx) }()

	rung := func() { require.Equal(t, wake.Rung, bell.Sleep(t.Context(), time.Hour)) }
	rung()
	require.True(t, l.Up())
	_, err := pool.Exec(t.Context(), `NOTIFY "The Channel"`)
	require.NoError(t, err)
	rung()

	refuse.Store(true) // the first attempt to listen again fails
	_, err = pool.Exec(t.Context(), `SELECT pg_terminate_backend($1)`, int32(<-pids))
	require.NoError(t, err)
	rung()
	require.Error(t, <-failures)
	require.EqualError(t, <-failures, "refused")
	require.True(t, l.Up())

	cancel()
	<-ended
	require.False(t, l.Up())
	require.Empty(t, failures, "a stop is no failure")
}

// A listener in another database stands for one behind a pooler in transaction mode: LISTEN succeeds, nothing comes.
func TestAListenerThatHearsNothingSaysSoOnceAndIsNotUp(t *testing.T) {
	t.Parallel()
	here, elsewhere := testdb.New(t), testdb.New(t)
	listenAt := atomic.Pointer[pgxpool.Pool]{}
	listenAt.Store(elsewhere)
	deaf, notified, pids := make(chan struct{}, 100), make(chan struct{}), make(chan uint32, 100)
	bell := wake.NewBell()
	l := &wake.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			conn, err := pgx.ConnectConfig(ctx, listenAt.Load().Config().ConnConfig)
			if err == nil {
				pids <- conn.PgConn().PID()
			}
			return conn, err
		},
		Listen: `LISTEN "The Channel"`,
		Bell:   bell,
		Notify: func(ctx context.Context) error {
			select {
			case notified <- struct{}{}:
			case <-ctx.Done():
			}
			_, err := here.Exec(ctx, `NOTIFY "The Channel"`)
			return err
		},
		Deaf: func() { deaf <- struct{}{} },
	}
	run(t, l)
	rung := func() { require.Equal(t, wake.Rung, bell.Sleep(t.Context(), time.Hour)) }
	cut := func() {
		_, err := here.Exec(t.Context(), `SELECT pg_terminate_backend($1)`, int32(<-pids))
		require.NoError(t, err)
	}
	rung() // the start
	<-notified
	require.True(t, l.Up(), "not known yet")
	<-deaf
	require.False(t, l.Up())

	cut()
	rung()
	<-notified
	require.False(t, l.Up(), "what was found out holds for the next connection too, until it hears something")
	listenAt.Store(here)
	cut()
	<-notified
	require.Eventually(t, l.Up, patience, time.Millisecond)
	cut()
	require.Eventually(t, func() bool { return len(pids) > 0 && l.Up() }, patience, time.Millisecond, "the next one is trusted again, before it is heard")
	<-notified
	require.Empty(t, deaf, "once is enough")
}

func TestAListenerThatHearsItselfIsUpAndSilent(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	bell := wake.NewBell()
	proceed := make(chan struct{})
	l := &wake.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, pool.Config().ConnConfig) },
		Listen:  `LISTEN "The Channel"`,
		Bell:    bell,
		Notify: func(ctx context.Context) error {
			<-proceed
			_, err := pool.Exec(ctx, `NOTIFY "The Channel"`)
			return err
		},
		Deaf: func() { t.Error("it is not deaf") },
	}
	run(t, l)
	require.Equal(t, wake.Rung, bell.Sleep(t.Context(), time.Hour))
	close(proceed)
	require.Equal(t, wake.Rung, bell.Sleep(t.Context(), time.Hour), "its own notification")
	require.True(t, l.Up())
}

// A pool that is exhausted or a database that refuses tells nothing about the listener.
func TestANotificationThatCouldNotBeSentProvesNothing(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	bell := wake.NewBell()
	refused := make(chan struct{}, 100)
	l := &wake.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, pool.Config().ConnConfig) },
		Listen:  `LISTEN "The Channel"`,
		Bell:    bell,
		Notify:  func(context.Context) error { refused <- struct{}{}; return errors.New("refused") },
		Deaf:    func() { t.Error("nobody knows") },
	}
	run(t, l)
	require.Equal(t, wake.Rung, bell.Sleep(t.Context(), time.Hour))
	<-refused
	_, err := pool.Exec(t.Context(), `NOTIFY "The Channel"`)
	require.NoError(t, err)
	require.Equal(t, wake.Rung, bell.Sleep(t.Context(), time.Hour))
	require.True(t, l.Up())
}

const patience = time.Minute

// run runs a listener until the test ends.
func run(t *testing.T, l *wake.Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}
