package outbox_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// unconnected gives a pool that never connects; a constructor does no I/O.
func unconnected(t *testing.T, maxConns int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig("postgres://nobody:secret@127.0.0.1:1/none")
	require.NoError(t, err)
	config.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func TestTheZeroConfigIsValid(t *testing.T) {
	require.NoError(t, outbox.ForwarderConfig{}.Validate())
	_, err := outbox.NewForwarder(unconnected(t, 5), newBroker(), outbox.ForwarderConfig{}, nil)
	require.NoError(t, err)
}

func TestAllProblemsOfAConfigAreReportedAtOnce(t *testing.T) {
	config := outbox.ForwarderConfig{
		Schema:             outbox.Schema{Table: strings.Repeat("x", 60)},
		Workers:            65,
		BatchSize:          -1,
		BatchBytes:         -2,
		PublishConcurrency: -3,
		PublishTimeout:     -time.Second,
		PassTimeout:        -time.Second,
		PollInterval:       -time.Second,
		ListenDSN:          "postgres://u:secret@h/d",
		PollOnly:           true,
		Retry:              outbox.RetryPolicy{MaxAttempts: -2, Initial: -1, Max: -1, Multiplier: 0.5, Jitter: 2},
		OnDead:             7,
		MaxPerSecond:       math.NaN(),
		Middlewares:        []message.HandlerMiddleware{nil},
		Hooks:              []outbox.Hook{struct{}{}},
		SweepShare:         -0.5,
		CloseTimeout:       -time.Second,
	}
	_, err := outbox.NewForwarder(unconnected(t, 4), nil, config, nil)
	require.Error(t, err)
	for _, field := range []string{"Schema.Table", "Workers: 65 must", "Workers: 65 workers need", "BatchSize", "BatchBytes", "PublishConcurrency", "PublishTimeout",
		"PassTimeout", "PollInterval", "ListenDSN", "Retry.MaxAttempts", "Retry.Initial", "Retry.Max:", "Retry.Multiplier", "Retry.Jitter", "OnDead",
		"MaxPerSecond", "Middlewares[0]", "Hooks[0]", "SweepShare", "CloseTimeout", "publisher"} {
		require.ErrorContains(t, err, "outbox: "+field)
	}
	require.NotContains(t, err.Error(), "secret")
}

func TestThePoolMustHaveAConnectionForEachWorkerAndOneMore(t *testing.T) {
	_, err := outbox.NewForwarder(unconnected(t, 4), newBroker(), outbox.ForwarderConfig{}, nil)
	require.EqualError(t, err, "outbox: Workers: 4 workers need a pool with MaxConns of at least 5, it has 4")
	_, err = outbox.NewForwarder(nil, newBroker(), outbox.ForwarderConfig{}, nil)
	require.EqualError(t, err, "outbox: pool: it is nil")
}

func TestTheSmallestPoolThatValidateAllowsWorks(t *testing.T) {
	pool, out := migrated(t), newBroker()
	config := pool.Config()
	config.MaxConns = 3
	small, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(small.Close)
	start(t, forwarder(t, small, out, outbox.ForwarderConfig{Workers: 2}))
	put(t, small, "orders", "a", numbered(1, 100)...)
	out.await(t, 100)
}

func TestRunSaysThatTheSchemaIsMissing(t *testing.T) {
	pool := migrated(t)
	f := forwarder(t, pool, newBroker(), outbox.ForwarderConfig{Schema: outbox.Schema{Table: "elsewhere"}})
	require.ErrorIs(t, f.Run(t.Context()), outbox.ErrSchemaVersion)
	_, err := f.RunOnce(t.Context())
	require.ErrorIs(t, err, outbox.ErrSchemaVersion)
}
