package brokers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// command builds cmd/outbox, once.
var command = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "outbox-command-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(folder, "outbox")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/outbox").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

// process is "outbox forward" at work.
type process struct {
	*exec.Cmd
	output *bytes.Buffer
}

// launch starts one. The broker's URL is all that tells one broker from another.
func launch(t testing.TB, database, broker string) *process {
	t.Helper()
	binary, err := command()
	require.NoError(t, err)
	p := &process{Cmd: exec.Command(binary, "forward", "--database", database, "--broker", broker, "--workers", "2"), output: new(bytes.Buffer)}
	p.Stdout, p.Stderr = p.output, p.output
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// Two processes share a table; one is killed and started again under load, the other is told to stop: nothing is lost, no
// key is out of order. On each broker, by its URL alone.
func TestTheCommandForwards(t *testing.T) {
	t.Parallel()
	for _, p := range withAMQP(t) {
		if p.name == "gochannel" { // which no other process can reach
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := &site{place: p, address: p.shared(t)}
			url := testdb.URL(t)
			pool := testdb.Open(t, url)
			w := newWriter(t, pool, testdb.Random("command_"))
			b := s.open(t, testdb.Random("group_"))
			r := read(t, b, w.topic)
			stop := w.keepWriting(t)

			first, second := launch(t, url, s.address), launch(t, url, s.address)
			progress(t, r)
			for range 3 {
				require.NoError(t, first.Process.Kill())
				require.Error(t, first.Wait(), "it was killed")
				first = launch(t, url, s.address)
				progress(t, r)
			}
			require.NoError(t, second.Process.Signal(syscall.SIGTERM))
			require.NoError(t, second.Wait(), "a graceful stop: %s", second.output)
			progress(t, r)

			stop()
			eventually(t, "all that was committed is there", func() bool { return r.got() == w.total() })
			require.NoError(t, first.Process.Signal(syscall.SIGTERM))
			require.NoError(t, first.Wait(), "a graceful stop: %s", first.output)
			requireUncharged(t, pool)
			r.requireInOrder(t, w.written)
			require.Zero(t, waiting(t, pool))
			t.Logf("%d messages, %d deliveries", w.total(), r.deliveries())
		})
	}
}

// waiting is the number of messages that were not forwarded.
func waiting(t testing.TB, pool *pgxpool.Pool) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM public.outbox").Scan(&n))
	return n
}
