package command

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	publish(t, pool, "orders", "", "1")
	empty := testdb.URL(t)
	for _, test := range []struct {
		code int
		says string
		args []string
	}{
		{ExitOK, "", []string{"version"}},
		{ExitOK, "", []string{"completion", "bash"}},
		{ExitOK, "", []string{"dead"}},
		{ExitOK, "", []string{"status", "--database", url, "--max-dead", "0", "--max-age", "1000h"}},
		{ExitUsage, "unknown command", []string{"forwrad"}},
		{ExitUsage, `did you mean "list"?`, []string{"dead", "lst"}},
		{ExitUsage, "unknown flag: --databse; did you mean --database?", []string{"status", "--databse", url}},
		{ExitUsage, "unknown command", []string{"status", "public.outbox"}},
		{ExitUsage, "database: it is missing; set it in the file, by --database or by OUTBOX_DATABASE", []string{"status"}},
		{ExitUsage, "--watch: -1s must be positive", []string{"status", "--database", url, "--watch", "-1s"}},
		{ExitUsage, "--key: it is empty", []string{"dead", "discard", "--database", url, "--topic", "orders", "--key", "", "--yes"}},
		{ExitUsage, "--topic: it is empty", []string{"dead", "list", "--database", url, "--topic="}},
		{ExitUsage, "--topic: it is empty", []string{"consume", "--broker", "ledger://localhost", "--topic", ""}},
		{ExitSchema, "the schema does not fit", []string{"status", "--database", empty}},
		{ExitSchema, "the schema does not fit", []string{"forward", "--database", empty, "--broker", "ledger://localhost"}},
		{ExitSchema, "the schema does not fit", []string{"dead", "list", "--database", empty}},
		{ExitUnhealthy, "public.outbox is unhealthy: a message has waited", []string{"status", "--database", url, "--max-age", "0s"}},
		{ExitFailure, "failed to connect", []string{"status", "--database", "postgres://me:s3cr3t@127.0.0.1:1/x"}},
		{ExitFailure, "http: ", []string{"forward", "--database", url, "--broker", "ledger://localhost", "--http", "nowhere:x"}},
	} {
		c := newCall(test.args...).ends(t, test.code)
		require.Contains(t, c.stderr.String(), test.says, test.args)
		require.NotContains(t, c.stderr.String(), "s3cr3t")
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	publish(t, pool, "orders", "", "1", "2")
	file := write(t, "outbox.yaml", "database: "+url+"\nname: shop\n")
	require.Regexp(t, `^outbox  ready  delayed  retrying  parked  dead  quarantined keys  oldest ready\n`+
		`shop +2 +0 +0 +0 +0 +0 +\d+s\n$`, run(t, "status", "-c", file))
	require.Regexp(t, `"ready": 2,`, run(t, "status", "-c", file, "--json"))

	c := newCall("status", "-c", file, "--watch", "1ms")
	stop := c.starts(t)
	eventually(t, "it has counted three times", func() bool {
		return len(c.stdout.String()) > 2*len("outbox  ready  delayed  retrying  parked  dead  quarantined keys  oldest ready\n\n")
	})
	require.Equal(t, ExitOK, stop())
}

// Every command explains itself, with an example.
func TestHelp(t *testing.T) {
	t.Parallel()
	root := (&app{}).root()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.NotEmpty(t, c.Example, c.CommandPath())
		require.True(t, c.Runnable() || c == root, c.CommandPath())
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	require.Contains(t, run(t, "--help"), exitHelp)
	require.Regexp(t, `^outbox \S.* go1\.\d+`, run(t, "version"))
}
