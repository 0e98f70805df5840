package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// fakeDriver opens fake://host URLs, which may have the parameter acks.
type fakeDriver struct{}

func (fakeDriver) Schemes() []string { return []string{"fake"} }

func (fakeDriver) Open(_ context.Context, url *broker.URL, _ broker.Options) (broker.Broker, error) {
	params := url.Params()
	params.Int("acks", 1, 1)
	_, err := url.Addresses("1")
	return fakeBroker{}, errors.Join(err, params.Err())
}

type fakeBroker struct{ broker.Broker }

func (fakeBroker) Close() error { return nil }

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "outbox.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// input has a file with that content, and wants all that forward does.
func input(t testing.TB, content string, environ ...string) Input {
	t.Helper()
	return Input{File: write(t, content), Environ: environ, Brokers: broker.NewMux(fakeDriver{}), Database: true, Broker: true}
}

func load(t testing.TB, content string, environ ...string) *Config {
	t.Helper()
	c, err := Load(t.Context(), input(t, content, environ...))
	require.NoError(t, err)
	return c
}

const sound = "database: postgres://me@localhost/shop\nbroker: fake://localhost\n"

func TestEverySettingArrives(t *testing.T) {
	t.Parallel()
	c := load(t, `
database: postgres://me@localhost/shop
broker: fake://localhost?acks=2
listen_dsn: host=localhost user=me
name: shop
schema: s
table: t
no_doorbell: true
topic_index: true
workers: 1
batch_size: 2
batch_bytes: 3MiB
publish_concurrency: 4
publish_timeout: 5s
pass_timeout: 6s
poll_interval: 7s
max_per_second: 8.5
on_dead: continue
retry:
  max_attempts: -1
  initial: 9s
  max: 10m
  multiplier: 11
  jitter: -1
scan_from_zero: true
sweep_share: 0.5
close_timeout: 12s
http: ":8080"
log_format: json
log_level: debug
progress: 13s
`)
	require.Equal(t, Process{HTTP: ":8080", LogFormat: "json", LogLevel: "debug", Progress: 13 * time.Second}, c.Process)
	require.Len(t, c.Outboxes, 1)
	o := c.Outboxes[0]
	require.Equal(t, "shop", o.Name)
	require.Equal(t, "postgres://me@localhost/shop", o.Database)
	require.Equal(t, "fake://localhost?acks=2", o.Broker)
	require.Equal(t, int32(2), o.Connections())
	require.Equal(t, outbox.ForwarderConfig{
		Schema:  outbox.Schema{Name: "s", Table: "t", NoDoorbell: true, TopicIndex: true},
		Workers: 1, BatchSize: 2, BatchBytes: 3 << 20, PublishConcurrency: 4, PublishTimeout: 5 * time.Second,
		PassTimeout: 6 * time.Second, PollInterval: 7 * time.Second, ListenDSN: "host=localhost user=me", MaxPerSecond: 8.5,
		OnDead:       outbox.ContinueKey,
		Retry:        outbox.RetryPolicy{MaxAttempts: -1, Initial: 9 * time.Second, Max: 10 * time.Minute, Multiplier: 11, Jitter: -1},
		ScanFromZero: true, SweepShare: 0.5, CloseTimeout: 12 * time.Second,
	}, o.Forwarder)
}

func TestTheEnvironmentIsStrongest(t *testing.T) {
	t.Parallel()
	flags := Layer{
		"workers":    {Text: "20", Origin: Origin{Name: "--workers"}},
		"batch_size": {Text: "21", Origin: Origin{Name: "--batch-size"}},
	}
	in := input(t, sound+"workers: 10\nbatch_size: 11\npublish_concurrency: 12\nretry: {max_attempts: 13}\n",
		"OUTBOX_WORKERS=30", "OUTBOX_RETRY_MAX_ATTEMPTS=31", "OUTBOX_BATCH_SIZE=", "OTHER=1")
	in.Flags = flags
	c, err := Load(t.Context(), in)
	require.NoError(t, err)
	f := c.Outboxes[0].Forwarder
	require.Equal(t, []int{30, 21, 12, 31}, []int{f.Workers, f.BatchSize, f.PublishConcurrency, f.Retry.MaxAttempts})
}

func TestSeveralOutboxesShareWhatTheyDoNotSet(t *testing.T) {
	t.Parallel()
	c := load(t, sound+`
workers: 10
retry: {max_attempts: 3, initial: 2s}
outboxes:
  - table: one
  - name: second
    table: two
    workers: 20
    broker: fake://elsewhere
    retry: {max_attempts: 4}
`, "OUTBOX_BATCH_SIZE=5")
	require.Len(t, c.Outboxes, 2)
	one, two := c.Outboxes[0], c.Outboxes[1]
	require.Equal(t, []string{"public.one", "second"}, []string{one.Name, two.Name})
	require.Equal(t, []string{"fake://localhost", "fake://elsewhere"}, []string{one.Broker, two.Broker})
	require.Equal(t, []int{10, 20}, []int{one.Forwarder.Workers, two.Forwarder.Workers})
	require.Equal(t, []int{5, 5}, []int{one.Forwarder.BatchSize, two.Forwarder.BatchSize})
	require.Equal(t, outbox.RetryPolicy{MaxAttempts: 3, Initial: 2 * time.Second}, one.Forwarder.Retry)
	require.Equal(t, outbox.RetryPolicy{MaxAttempts: 4, Initial: 2 * time.Second}, two.Forwarder.Retry)
}

func TestAddressesMayNameVariables(t *testing.T) {
	t.Parallel()
	c := load(t, "database: postgres://me:${PASSWORD}@localhost/${NAME}\nbroker: fake://localhost\ntable: ${NAME}\n", "PASSWORD=secret", "NAME=shop")
	require.Equal(t, "postgres://me:secret@localhost/shop", c.Outboxes[0].Database)
	require.Equal(t, "${NAME}", c.Outboxes[0].Forwarder.Schema.Table, "a name is taken as it is")
}

func TestTheFileMayBeNamedByTheEnvironment(t *testing.T) {
	t.Parallel()
	in := input(t, "")
	in.File = ""
	in.Environ = []string{"OUTBOX_CONFIG=" + write(t, sound+"workers: 7\n")}
	c, err := Load(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, 7, c.Outboxes[0].Forwarder.Workers)
}

func TestWhatKubernetesOrTheTestsSetIsNoMistake(t *testing.T) {
	t.Parallel()
	load(t, sound, "OUTBOX_SERVICE_HOST=10.0.0.1", "OUTBOX_SERVICE_PORT=8080", "OUTBOX_SERVICE_PORT_HTTP=8080",
		"OUTBOX_PORT=tcp://10.0.0.1:8080", "OUTBOX_PORT_8080_TCP=tcp://10.0.0.1:8080", "OUTBOX_PORT_8080_TCP_ADDR=10.0.0.1",
		"OUTBOX_FORWARDER_SERVICE_HOST=10.0.0.2", "OUTBOX_TEST_KAFKA=127.0.0.1:9092", "OUTBOX_SERVICES_DIR=x", "OUTBOX_SOAK=2")
}

func TestWithoutAFile(t *testing.T) {
	t.Parallel()
	in := Input{Environ: []string{"OUTBOX_DATABASE=postgres://me@localhost/shop"}, Database: true}
	c, err := Load(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "public.outbox", c.Outboxes[0].Name)
	require.Equal(t, int32(5), c.Outboxes[0].Connections())
}

func TestAByteOrderMarkIsNoMistake(t *testing.T) {
	t.Parallel()
	require.Equal(t, "shop", load(t, "\ufeffname: shop\r\n"+sound).Outboxes[0].Name)
}
