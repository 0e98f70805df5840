package outbox_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// silenced is a way to the database that can go silent: bytes are taken, and none come back.
func silenced(t *testing.T, raw string) (throughProxy string, silence func()) {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "silent", "127.0.0.1:0", net.JoinHostPort(u.Hostname(), u.Port()))
	require.NoError(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	u.Host = proxy.Listen
	return u.String(), func() {
		_, err := proxy.Toxics.AddToxicJson(strings.NewReader(`{"type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`))
		require.NoError(t, err)
	}
}

func TestPublishReturnsAtTheDeadlineWhenTheDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	ways := map[string]func(t *testing.T, url string) *outbox.Publisher{
		"pgx": func(t *testing.T, url string) *outbox.Publisher {
			t.Helper()
			conn, err := pgx.Connect(t.Context(), url)
			require.NoError(t, err)
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			publisher, err := outbox.NewPgxPublisher(tx, outbox.PublisherConfig{}, nil)
			require.NoError(t, err)
			return publisher
		},
		"stdlib": func(t *testing.T, url string) *outbox.Publisher {
			t.Helper()
			tx, err := openSQL(t, "pgx", url).BeginTx(t.Context(), nil)
			require.NoError(t, err)
			return publisherOf(t, tx, outbox.PublisherConfig{})
		},
	}
	for way, open := range ways {
		for _, mode := range []string{"cache_statement", "simple_protocol"} {
			t.Run(way+"/"+mode, func(t *testing.T) {
				proxied, silence := silenced(t, withParameter(t, w.url, "default_query_exec_mode", mode))
				publisher := open(t, proxied)
				require.NoError(t, publisher.Publish("orders", text("before", "")))
				silence()

				const patience = 300 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				msg := text("after", "")
				msg.SetContext(ctx)
				start := time.Now()
				require.ErrorIs(t, publisher.Publish("orders", msg), context.DeadlineExceeded)
				require.Less(t, time.Since(start), 10*time.Second)
			})
		}
	}
	require.Empty(t, w.stored(t))
}

func TestPublishReturnsAtTheDeadlineWhenTheTableIsLocked(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	locker := w.begin(t)
	_, err := locker.ExecContext(t.Context(), `LOCK TABLE public.outbox`)
	require.NoError(t, err)
	for _, driver := range []string{"postgres", "pgx"} {
		tx, err := openSQL(t, driver, w.url).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, publisherOf(t, tx, outbox.PublisherConfig{}).Publish("orders", inContext(ctx, "a")), context.DeadlineExceeded, driver)
		require.Error(t, tx.Commit(), driver)
	}
	require.NoError(t, locker.Rollback())
	require.Empty(t, w.stored(t))
}
