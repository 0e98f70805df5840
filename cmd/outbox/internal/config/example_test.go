package config

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// anyBroker opens kafka URLs.
type anyBroker struct{ fakeDriver }

func (anyBroker) Schemes() []string { return []string{"kafka"} }

func exampleInput(t testing.TB, content string) Input {
	t.Helper()
	in := input(t, content, "INVOICES_DATABASE=postgres://me@localhost/invoices")
	in.Brokers = broker.NewMux(anyBroker{})
	return in
}

func TestTheExampleIsRight(t *testing.T) {
	t.Parallel()
	c, err := Load(t.Context(), exampleInput(t, Example()))
	require.NoError(t, err)
	require.Len(t, c.Outboxes, 1)
}

// Whatever one takes the # away from is right too, and says what was so without it.
func TestTheExampleIsRightWithoutItsMarks(t *testing.T) {
	t.Parallel()
	bare := regexp.MustCompile(`(?m)^#(\S|  )`).ReplaceAllString(Example(), "$1")
	require.Contains(t, bare, "\nretry:\n\n# ")
	require.Contains(t, bare, "\n  max_attempts: 10\n")
	c, err := Load(t.Context(), exampleInput(t, bare))
	require.NoError(t, err)
	require.Len(t, c.Outboxes, 2)
	require.Equal(t, "postgres://me@localhost/invoices", c.Outboxes[1].Database)
	for _, f := range Fields {
		_, ok := c.Outboxes[0].origins[f.Name]
		require.True(t, ok, "%s is not in the example", f.Name)
	}
}

func TestPrintedSettingsReadAsTheSame(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"one": sound + "workers: 3\nbatch_bytes: 1000\non_dead: continue\nhttp: \":1\"\nretry: {jitter: -1}\ntable: \"odd: name # 'x'\"\n",
		"several": sound + "log_level: warn\nretry: {max: 7m}\noutboxes:\n  - {table: a, poll_only: true}\n" +
			"  - {table: b, max_per_second: 0.5, retry: {initial: 2s}}\n",
	} {
		c := load(t, content)
		again := load(t, c.String())
		require.Equal(t, c.Process.HTTP, again.HTTP, name)
		require.Equal(t, c.LogLevel, again.LogLevel, name)
		require.Len(t, again.Outboxes, len(c.Outboxes))
		for i, o := range c.Outboxes {
			require.Equal(t, o.Name, again.Outboxes[i].Name)
			require.Equal(t, o.Database, again.Outboxes[i].Database)
			for _, f := range Fields {
				was, is := f.shown(target{&c.Process, &o}), f.shown(target{&again.Process, &again.Outboxes[i]})
				require.Equal(t, was, is, "%s: %s", name, f.Name)
			}
		}
	}
}

func TestPrintedSettingsTellWhereTheyAreFrom(t *testing.T) {
	t.Parallel()
	in := input(t, "database: postgres://me:s3cr3t@localhost/shop\nbroker: fake://u:s3cr3t@localhost\n", "OUTBOX_WORKERS=3",
		"OUTBOX_LISTEN_DSN=host=x password=s3cr3t user=y")
	c, err := Load(t.Context(), in)
	require.NoError(t, err)
	text := c.String()
	require.NotContains(t, text, "s3cr3t")
	require.Contains(t, text, "database: postgres://me:xxxxx@localhost/shop # "+in.File+":1:11\n")
	require.Contains(t, text, "workers: 3 # OUTBOX_WORKERS\n")
	require.Contains(t, text, "batch_size: 500 # default\n")
	require.Contains(t, text, "host=x password=xxxxx user=y")
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"postgres://me:a@b:c/d@host/x":                 "postgres://me:xxxxx@host/x",
		"postgres://me@host/x":                         "postgres://me@host/x",
		"postgres://host/x?password=a&sslmode=require": "postgres://host/x?password=xxxxx&sslmode=require",
		"postgres://host/x?sslpassword=a":              "postgres://host/x?sslpassword=xxxxx",
		`host=x password='a b\'c' user=y`:              "host=x password=xxxxx user=y",
		"host=x PASSWORD = abc user=y":                 "host=x PASSWORD = xxxxx user=y",
		"nats://host:4222?token=abc":                   "nats://host:4222?token=xxxxx",
		"kafka://u:p@a:1,b:2/x?tls=true":               "kafka://u:xxxxx@a:1,b:2/x?tls=true",
		"nats://s3cret@host:4222":                      "nats://xxxxx@host:4222",
		"nats+tls://s3cret@a:1,b:2?x=1":                "nats+tls://xxxxx@a:1,b:2?x=1",
		"nats://u:p@host":                              "nats://u:xxxxx@host",
		"redis://:p@host":                              "redis://:xxxxx@host",
		"postgres://host:5432/x?application_name=a@b":  "postgres://host:xxxxx@b", // rather too much than too little
	} {
		require.Equal(t, want, Redacted(address))
	}
}
