package command

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestForwardByAFile(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	ledger := newLedger(t, nil)
	publish(t, pool, "orders", "alice", "1", "2", "3")
	file := write(t, "outbox.yaml", "database: "+url+"\nbroker: "+ledger.url+"\nworkers: 2\n")

	c := newCall("forward", "--config", file)
	stop := c.starts(t)
	eventually(t, "all is settled", func() bool { return count(t, pool, "public.outbox") == 0 })
	require.Equal(t, ExitOK, stop())
	require.Equal(t, []string{"1", "2", "3"}, ledger.payloads())
	require.Contains(t, c.stderr.String(), `msg=Forwarding outbox=public.outbox table="\"public\".\"outbox\"" broker=`+ledger.url+" workers=2\n")
	require.Contains(t, c.stderr.String(), "msg=Stopped outbox=public.outbox forwarded=3 failed_publishes=0 dead=0")
	require.Empty(t, c.stdout.String())
}

func TestForwardOnceByFlags(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	ledger := newLedger(t, nil)
	publish(t, pool, "orders", "alice", "1", "2", "3")
	run(t, "forward", "--database", url, "--broker", ledger.url, "--once")
	require.Equal(t, []string{"1", "2", "3"}, ledger.payloads())
	require.Zero(t, count(t, pool, "public.outbox"))
}

func TestForwardSeveralOutboxes(t *testing.T) {
	t.Parallel()
	one, two := newLedger(t, nil), newLedger(t, nil)
	file := write(t, "outbox.yaml", "database: "+testdb.URL(t)+"\nbroker: "+one.url+"\noutboxes:\n  - name: a\n    table: a\n"+
		"  - name: b\n    schema: B\n    database: "+testdb.URL(t)+"\n    broker: "+two.url+"\n")
	run(t, "migrate", "up", "-c", file)
	for _, name := range []string{"a", "b"} {
		newCall("publish", "-c", file, "--outbox", name, "--topic", "t").stdin(name+"\n").ends(t, ExitOK)
	}
	c := newCall("publish", "-c", file, "--topic", "t").stdin("x\n").ends(t, ExitUsage)
	require.Contains(t, c.stderr.String(), "there are several outboxes; name one of them by --outbox: a, b\n")

	c = newCall("forward", "-c", file)
	stop := c.starts(t)
	eventually(t, "both are forwarded", func() bool { return len(one.all()) == 1 && len(two.all()) == 1 })
	require.Equal(t, ExitOK, stop())
	require.Equal(t, []string{"a", "b"}, append(one.payloads(), two.payloads()...))
}

// One outbox whose tables don't fit ends the process, and the others' forwarders before it.
func TestOneUnfitOutboxEndsAll(t *testing.T) {
	t.Parallel()
	url, _ := database(t)
	file := write(t, "outbox.yaml", "database: "+url+"\nbroker: ledger://localhost\noutboxes:\n  - {table: outbox}\n  - {table: none}\n")
	c := newCall("forward", "-c", file).ends(t, ExitSchema)
	require.Contains(t, c.stderr.String(), "outbox: public.none: outbox: the schema does not fit this library")
	require.Contains(t, c.stderr.String(), "msg=Stopped outbox=public.outbox")

	c = newCall("forward", "-c", file, "--log-format", "json").ends(t, ExitSchema)
	require.Contains(t, c.stderr.String(), `"msg":"The command failed","err":"public.none: outbox: the schema does not fit`)
	for line := range strings.Lines(c.stderr.String()) {
		require.True(t, json.Valid([]byte(line)), line)
	}
}

func TestSettingsReachTheForwarder(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	publish(t, pool, "orders", "alice", "poison", "after")
	ledger := newLedger(t, func(e entry) error {
		if e.Payload == "poison" {
			return errors.New("no")
		}
		return nil
	})
	c := newCall("forward", "--database", url, "--broker", ledger.url).environ("OUTBOX_ON_DEAD=continue")
	stop := c.starts(t)
	eventually(t, "what came after it is forwarded", func() bool { return len(ledger.all()) == 1 })
	require.Equal(t, ExitOK, stop())
	require.Equal(t, 1, count(t, pool, "public.outbox_dead"))
}

func TestForwardShowsProgress(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	ledger := newLedger(t, nil)
	publish(t, pool, "orders", "", "1", "2")
	for _, live := range []bool{false, true} {
		c := newCall("forward", "--database", url, "--broker", ledger.url, "--progress", "10ms")
		c.Live = live
		want := regexp.MustCompile(`msg=Progress outbox=public.outbox forwarded_per_second=\d+ forwarded=\d+ failed_publishes=0 ready=\d+ waiting=0 dead=0( counted_ago=\d+s)?\n`)
		if live {
			want = regexp.MustCompile(`public.outbox: \d+/s, \d+ forwarded, \d+ ready, 0 dead`)
		}
		stop := c.starts(t)
		eventually(t, "it shows how far it is", func() bool { return want.MatchString(c.stderr.String()) })
		require.Equal(t, ExitOK, stop())
	}
}

func TestNoSecretsInTheLog(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	_, roleURL := testdb.Role(t, url)
	broker := strings.Replace(newLedger(t, nil).url, "://", "://me:s3cr3t@", 1)
	publish(t, pool, "orders", "", "1")
	c := newCall("forward", "--database", url, "--broker", broker, "--log-level", "debug",
		"--listen-dsn", "postgres://me:s3cr3t@127.0.0.1:1/x")
	stop := c.starts(t)
	eventually(t, "it forwards", func() bool { return count(t, pool, "public.outbox") == 0 })
	eventually(t, "it can't listen", func() bool { return strings.Contains(c.stderr.String(), "Not listening") })
	require.Equal(t, ExitOK, stop())
	require.Contains(t, c.stderr.String(), "me:xxxxx@")
	require.NotContains(t, c.stderr.String(), "s3cr3t")

	wrong := strings.Replace(roleURL, ":", ":s3cr3t", 2) // another password than it has
	c = newCall("status", "--database", strings.Replace(wrong, ":s3cr3t//", "://", 1)).ends(t, ExitFailure)
	require.NotContains(t, c.stderr.String(), "s3cr3t")
}
