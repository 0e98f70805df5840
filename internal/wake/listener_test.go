package wake_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
