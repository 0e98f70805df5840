package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// graveyard has dead letters: "poison" of alice with two that followed it, and two without a key.
func graveyard(t testing.TB) (url string, pool *pgxpool.Pool, uuids []string) {
	t.Helper()
	url, pool = database(t)
	uuids = publish(t, pool, "orders", "alice", "poison", "after 1", "after 2")
	uuids = append(uuids, publish(t, pool, "mails", "", "poison \x1b[31m", "poison")...)
	ledger := newLedger(t, func(e entry) error {
		if strings.HasPrefix(e.Payload, "poison") {
			return errors.New("refused: " + e.Topic)
		}
		return nil
	})
	// The first pass buries the failed ones; those that wait behind them follow when their turn comes.
	eventually(t, "all are dead", func() bool {
		run(t, "forward", "--database", url, "--broker", ledger.url, "--once")
		return count(t, pool, "public.outbox_dead") == 5
	})
	require.Zero(t, count(t, pool, "public.outbox"))
	return url, pool, uuids
}

func letters(t testing.TB, output string) (list []letterJSON) {
	t.Helper()
	for line := range strings.Lines(output) {
		var l letterJSON
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		list = append(list, l)
	}
	return list
}

func TestDeadList(t *testing.T) {
	t.Parallel()
	url, _, uuids := graveyard(t)
	list := func(args ...string) []string {
		var payloads []string
		for _, l := range letters(t, run(t, append([]string{"dead", "list", "--json", "--database", url}, args...)...)) {
			payload, err := l.payload()
			require.NoError(t, err)
			payloads = append(payloads, string(payload))
		}
		return payloads
	}
	all := []string{"poison", "after 1", "after 2", "poison \x1b[31m", "poison"}
	require.Equal(t, all, list())
	require.Equal(t, all[:3], list("--topic", "orders"))
	require.Equal(t, all[:3], list("--key", "alice"))
	require.Equal(t, all[3:], list("--error", "refused: mails"))
	require.Equal(t, all[1:2], list("--uuid", uuids[1]))
	require.Empty(t, list("--older-than", "1h"))
	require.Equal(t, all[:2], list("--limit", "2"))
	ids := letters(t, run(t, "dead", "list", "--json", "--database", url))
	require.Equal(t, all[2:4], list("--after", fmt.Sprint(ids[1].ID), "--limit", "2"))
	require.Equal(t, []string{all[0], all[4]}, list("--id", fmt.Sprintf("%d,%d", ids[0].ID, ids[4].ID)))

	first := ids[0]
	require.Equal(t, []any{"orders", "alice", uuids[0], 1, "refused: orders", true, false},
		[]any{first.Topic, first.Key, first.UUID, first.Attempts, first.Error, first.Quarantines, first.Tail})
	require.True(t, ids[1].Tail)

	c := newCall("dead", "list", "--database", url, "--limit", "4").ends(t, ExitOK)
	require.Regexp(t, `(?m)^ *\d+  orders  alice  `+uuids[1]+`  +0  \d+s ago  \(follows a dead letter of its key\)$`, c.stdout.String())
	require.Equal(t, fmt.Sprintf("There may be more: --after %d\n", ids[3].ID), c.stderr.String())
	c = newCall("dead", "list", "--database", url, "--topic", "none").ends(t, ExitOK)
	require.Equal(t, "No dead letters.\n", c.stderr.String())
}

func TestDeadShow(t *testing.T) {
	t.Parallel()
	url, _, uuids := graveyard(t)
	output := run(t, "dead", "show", "--database", url, "--uuid", uuids[0])
	for _, part := range []string{"topic      orders\n", "key        alice (quarantined", "error      refused: orders\n", "metadata   outbox_key = alice\n", "\npoison\n"} {
		require.Contains(t, output, part)
	}
	require.Contains(t, run(t, "dead", "show", "--database", url, "--uuid", uuids[3]), `poison \x1b[31m`, "nothing that a terminal obeys")
	require.Len(t, letters(t, run(t, "dead", "show", "--database", url, "--all", "--json")), 5)
	newCall("dead", "show", "--database", url, "--id", "1234567").ends(t, ExitFailure)
	newCall("dead", "show", "--database", url).ends(t, ExitUsage)
}

func TestRequeueTakesWholeKeys(t *testing.T) {
	t.Parallel()
	url, pool, uuids := graveyard(t)
	requeue := func(args ...string) string {
		return run(t, append([]string{"dead", "requeue", "--database", url}, args...)...)
	}
	require.Equal(t, "Would be requeued: 3 letters, 2 of them with their key.\n", requeue("--uuid", uuids[1], "--dry-run"))
	require.Equal(t, 5, count(t, pool, "public.outbox_dead"))
	require.JSONEq(t, `{"selected": 1, "touched": 3, "requeued": 3}`, requeue("--uuid", uuids[1], "--yes", "--json"))
	require.Equal(t, 2, count(t, pool, "public.outbox_dead"))

	require.Equal(t, "1 letter requeued; there may be more than --limit let through.\n", requeue("--topic", "mails", "--limit", "1", "--yes"))
	require.Equal(t, "0 letters requeued.\n", requeue("--topic", "none", "--yes"))
	require.Equal(t, "1 letter requeued.\n", requeue("--all", "--yes"))
	require.Equal(t, 5, count(t, pool, "public.outbox"))

	ledger := newLedger(t, nil)
	run(t, "forward", "--database", url, "--broker", ledger.url, "--once")
	var alice []string
	for _, e := range ledger.all() {
		if e.Key == "alice" {
			alice = append(alice, e.UUID)
		}
	}
	require.Equal(t, uuids[:3], alice)
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	url, pool, uuids := graveyard(t)
	require.Equal(t, "1 letter discarded.\n", run(t, "dead", "discard", "--database", url, "--uuid", uuids[0], "--yes"))
	require.Equal(t, 2, count(t, pool, "public.outbox"), "those that followed it go on their way")
	require.Equal(t, 2, count(t, pool, "public.outbox_dead"))
	require.Equal(t, "Would be discarded: 2 letters.\n", run(t, "dead", "discard", "--database", url, "--all", "--dry-run"))
}

func TestRequeueAsks(t *testing.T) {
	t.Parallel()
	url, pool, _ := graveyard(t)
	c := newCall("dead", "requeue", "--database", url, "--all").ends(t, ExitUsage)
	require.Contains(t, c.stderr.String(), "--yes is needed where nobody can be asked; it would be: 5 letters")
	for _, answer := range []string{"", "\n", "n\n", "no\n", "maybe\n"} {
		c = newCall("dead", "requeue", "--database", url, "--all").stdin(answer)
		c.Asks = true
		c.ends(t, ExitFailure)
		require.Contains(t, c.stderr.String(), "Requeue 5 letters? [y/N] outbox: nothing was done\n")
	}
	require.Equal(t, 5, count(t, pool, "public.outbox_dead"))
	c = newCall("dead", "requeue", "--database", url, "--all").stdin("y\n")
	c.Asks = true
	c.ends(t, ExitOK)
	require.Zero(t, count(t, pool, "public.outbox_dead"))
	c = newCall("dead", "discard", "--database", url, "--yes").ends(t, ExitUsage)
	require.Contains(t, c.stderr.String(), "nothing is selected")
}

func TestManyDeadLettersGoInBatches(t *testing.T) {
	t.Parallel()
	const many = moveBatch*2 + 50
	url, pool := database(t)
	var payloads []string
	for i := range many {
		payloads = append(payloads, fmt.Sprint(i))
	}
	publish(t, pool, "orders", "", payloads...)
	ledger := newLedger(t, func(entry) error { return errors.New("no") })
	run(t, "forward", "--database", url, "--broker", ledger.url, "--once")
	require.Equal(t, many, count(t, pool, "public.outbox_dead"))
	require.Len(t, letters(t, run(t, "dead", "list", "--database", url, "--json", "--limit", "1040")), 1040)

	c := newCall("dead", "requeue", "--database", url, "--all", "--yes")
	c.Live = true
	c.ends(t, ExitOK)
	require.Equal(t, "1,050 letters requeued.\n", c.stdout.String())
	require.Contains(t, c.stderr.String(), "500 of 1,050 done")
	require.Equal(t, many, count(t, pool, "public.outbox"))
}
