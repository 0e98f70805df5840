package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForwardByAFile(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	ledger := newLedger(t, nil)
	publish(t, pool, "orders", "alice", "1", "2", "3")
	file := write(t, "outbox.yaml", "database: "+url+"\nbroker: "+ledger.url+"\nworkers: 2\n")

	c := newCall("forward", "--config", file)
	stop := c.starts(t)
	eventually(t, "all is forwarded", func() bool { return len(ledger.all()) == 3 })
	eventually(t, "all is settled", func() bool { return count(t, pool, "public.outbox") == 0 })
	require.Equal(t, ExitOK, stop())
	require.Equal(t, []string{"1", "2", "3"}, ledger.payloads())
	require.Contains(t, c.stderr.String(), "forwarded=3")
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
