package command

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// get asks a running command.
func get(t testing.TB, url string, header ...string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content)
}

var serving = regexp.MustCompile(`"address":"(127\.0\.0\.1:\d+)"`)

// serves starts forward with HTTP and JSON logs and gives its address.
func serves(t testing.TB, args ...string) (c *call, base string, stop func() int) {
	t.Helper()
	c = newCall(append(args, "--http", "127.0.0.1:0", "--log-format", "json")...)
	stop = c.starts(t)
	eventually(t, "it serves", func() bool { return serving.MatchString(c.stderr.String()) })
	return c, "http://" + serving.FindStringSubmatch(c.stderr.String())[1], stop
}

func TestServer(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	_, err := pool.Exec(t.Context(), "SELECT 1")
	require.NoError(t, err)
	publish(t, pool, "orders", "", "1", "2", "poison")
	ledger := newLedger(t, func(e entry) error {
		if e.Payload == "poison" {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	c, base, stop := serves(t, "forward", "--database", url, "--broker", ledger.url, "--name", "shop")
	eventually(t, "it is ready", func() bool {
		status, _ := get(t, base+"/readyz")
		return status == http.StatusOK
	})
	status, body := get(t, base+"/readyz")
	require.Equal(t, "shop: ready\n", body)
	require.Equal(t, http.StatusOK, status)
	_, body = get(t, base+"/readyz", "Accept", "application/json")
	require.JSONEq(t, `{"ready": true, "outboxes": [{"name": "shop", "ready": true}]}`, body)
	status, body = get(t, base+"/healthz")
	require.Equal(t, []any{http.StatusOK, "ok\n"}, []any{status, body})

	eventually(t, "all is counted", func() bool {
		_, body = get(t, base+"/metrics")
		return strings.Contains(body, `outbox_dead_letters_total{outbox="shop"} 1`) && strings.Contains(body, `outbox_forwarded_total{outbox="shop"} 2`)
	})
	for _, line := range []string{
		`outbox_publish_failures_total{outbox="shop"} 1`, `outbox_publish_duration_seconds_count{outbox="shop"} 3`,
		`outbox_forwarder_healthy{outbox="shop"} 1`, `outbox_stats_up{outbox="shop"} 1`, `outbox_messages{outbox="shop",state="delayed"} 0`,
	} {
		require.Contains(t, body, line+"\n")
	}
	require.Equal(t, ExitOK, stop())
	for line := range strings.Lines(c.stderr.String()) {
		require.True(t, json.Valid([]byte(line)), line)
	}
	_, err = http.Get(base + "/healthz") //nolint:bodyclose // there is none
	require.Error(t, err)
}

func TestNotReadyWhileTheBrokerIsDown(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	publish(t, pool, "orders", "", "1")
	_, base, stop := serves(t, "forward", "--database", url, "--broker", "ledger://127.0.0.1:1")
	var body string
	eventually(t, "it is not ready", func() bool {
		var status int
		status, body = get(t, base+"/readyz?format=json")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "refused")
	})
	status, _ := get(t, base+"/healthz")
	require.Equal(t, http.StatusOK, status, "it lives all the same")
	_, metrics := get(t, base+"/metrics")
	require.Contains(t, metrics, `outbox_forwarder_healthy{outbox="public.outbox"} 0`)
	require.Equal(t, ExitOK, stop())
}

// The forwarder's rights are enough to forward, and to count.
func TestMetricsWithTheForwardersRights(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	name, roleURL := testdb.Role(t, url)
	grant(t, pool, run(t, "grants", "--role", "forwarder", "--to", name))
	publish(t, pool, "orders", "", "1")
	_, base, stop := serves(t, "forward", "--database", roleURL, "--broker", newLedger(t, nil).url)
	eventually(t, "it has forwarded", func() bool {
		_, body := get(t, base+"/metrics")
		return strings.Contains(body, `outbox_forwarded_total{outbox="public.outbox"} 1`)
	})
	_, body := get(t, base+"/metrics")
	require.Contains(t, body, `outbox_stats_up{outbox="public.outbox"} 1`)
	require.Contains(t, body, `outbox_messages{outbox="public.outbox",state="dead"} 0`)
	require.Equal(t, ExitOK, stop())
}

func grant(t testing.TB, pool *pgxpool.Pool, sql string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func TestStoppingIsNotReady(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	ledger, held, open := gate(t)
	publish(t, pool, "orders", "", "1")
	_, base, stop := serves(t, "forward", "--database", url, "--broker", ledger.url)
	eventually(t, "a publish is in flight", func() bool { return held.Load() == 1 })
	var code atomic.Int64
	code.Store(-1)
	go func() { code.Store(int64(stop())) }()
	eventually(t, "it tells that it stops", func() bool {
		status, body := get(t, base+"/readyz")
		return status == http.StatusServiceUnavailable && body == "public.outbox: stopping\n"
	})
	require.Equal(t, int64(-1), code.Load())
	open()
	require.Equal(t, ExitOK, stop())
}
