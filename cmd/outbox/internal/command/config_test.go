package command

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

const fiveMistakes = `database: postgres://me:s3cr3t@localhost/shop
workres: 3
batch_size: many
retry:
  jitter: 2
broker: kafak://localhost
sweep_share: 7
`

func TestConfigCheckTellsAllMistakes(t *testing.T) {
	t.Parallel()
	file := write(t, "outbox.yaml", fiveMistakes)
	want := []string{
		file + `:2:1: workres: there is no such setting; did you mean "workers"?`,
		file + `:3:13: batch_size: "many" must be a whole number`,
		file + `:5:11: retry.jitter: 2 must be between 0 and 1, or -1 for none`,
		file + `:6:9: broker: no driver for "kafak" URLs; known are ledger`,
		file + `:7:14: sweep_share: 7 must be above 0 and at most 1, or -1 for none`,
	}
	// What forwards, or only looks, tells them too, and does nothing.
	for _, args := range [][]string{{"config", "check"}, {"forward"}, {"status"}, {"config", "print"}} {
		c := newCall(append(args, "--config", file)...).ends(t, ExitUsage)
		require.Equal(t, strings.Join(want, "\n")+"\n", c.stderr.String(), args)
		require.Empty(t, c.stdout.String())
	}
	c := newCall("config", "check", "--config", file, "--workers", "x").environ("OUTBOX_WORKRES=3").ends(t, ExitUsage)
	require.Equal(t, strings.Join(append(want,
		`OUTBOX_WORKRES: there is no such variable; did you mean "OUTBOX_WORKERS"?`, `--workers: "x" must be a whole number`,
	), "\n")+"\n", c.stderr.String())

	c = newCall("config", "check", "--config", file, "--json").ends(t, ExitUsage)
	var list []mistakeJSON
	require.NoError(t, json.Unmarshal([]byte(c.stdout.String()), &list))
	require.Len(t, list, 5)
	require.Equal(t, mistakeJSON{File: file, Line: 3, Column: 13, Key: "batch_size", Text: `"many" must be a whole number`}, list[1])
}

func TestConfigCheckConnects(t *testing.T) {
	t.Parallel()
	url := testdb.URL(t)
	ledger := newLedger(t, nil)
	file := write(t, "outbox.yaml", "database: "+url+"\nbroker: "+ledger.url+"\n")
	require.Equal(t, "The settings are right: 1 outbox.\n", run(t, "config", "check", "-c", file))
	c := newCall("config", "check", "-c", file, "--connect").ends(t, ExitSchema)
	require.Contains(t, c.stderr.String(), "public.outbox: database: outbox: the schema does not fit")
	run(t, "migrate", "up", "-c", file)
	run(t, "config", "check", "-c", file, "--connect")

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	c = newCall("config", "check", "-c", file, "--connect").environ("OUTBOX_BROKER=ledger://"+closed.Addr().String()).ends(t, ExitFailure)
	require.Contains(t, c.stderr.String(), "public.outbox: broker: ")
	c = newCall("config", "check", "-c", file, "--connect", "--json").environ("OUTBOX_BROKER=ledger://"+closed.Addr().String()).ends(t, ExitFailure)
	var list []mistakeJSON
	require.NoError(t, json.Unmarshal([]byte(c.stdout.String()), &list))
	require.Len(t, list, 1)
	require.Equal(t, "public.outbox", list[0].Outbox)
	require.Equal(t, "broker", list[0].Key)
	require.Contains(t, list[0].Text, "connection refused")
	c = newCall("config", "check", "-c", file, "--connect").
		environ("OUTBOX_DATABASE=postgres://me:s3cr3t@"+closed.Addr().String()+"/x").ends(t, ExitFailure)
	require.Contains(t, c.stderr.String(), "public.outbox: database: ")
	require.NotContains(t, c.stderr.String(), "s3cr3t")
}

func TestAFlagThatAVariableReplacesIsTold(t *testing.T) {
	t.Parallel()
	const told = "--workers is not used: OUTBOX_WORKERS is set, and is stronger"
	printed := func(variable string, args ...string) string {
		args = append([]string{"config", "print", "--workers", "3"}, args...)
		return newCall(args...).environ("OUTBOX_WORKERS="+variable).ends(t, ExitOK).stderr.String()
	}
	require.Equal(t, "outbox: "+told+"\n", printed("7"))
	require.Contains(t, printed("7", "--log-format", "json"), `"level":"WARN","msg":"`+told+`"`)
	require.Empty(t, printed("3"))
}

func TestConfigExampleAndPrint(t *testing.T) {
	t.Parallel()
	require.Contains(t, run(t, "config", "example"), "\n#workers: 4\n")
	c := newCall("config", "print", "--database", "postgres://me:s3cr3t@localhost/shop").environ("OUTBOX_WORKERS=7").ends(t, ExitOK)
	require.Contains(t, c.stdout.String(), "workers: 7 # OUTBOX_WORKERS\n")
	require.Contains(t, c.stdout.String(), "database: postgres://me:xxxxx@localhost/shop # --database\n")
}
