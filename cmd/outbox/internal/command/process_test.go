package command

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
)

// process is the command as a process of its own.
type process struct {
	cmd    *exec.Cmd
	stderr buffer
	ended  chan struct{} // closed after err is set
	err    error
}

func launch(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, config.Prefix) {
			p.cmd.Env = append(p.cmd.Env, entry)
		}
	}
	p.cmd.Env = append(p.cmd.Env, childVariable+"=1")
	p.cmd.Stderr = &p.stderr
	require.NoError(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// says waits until the process has logged a text.
func (p *process) says(t testing.TB, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("it says %q", text), func() bool {
		select {
		case <-p.ended:
			t.Fatalf("the process has ended: %v\n%s", p.err, p.stderr.String())
		default:
		}
		return strings.Contains(p.stderr.String(), text)
	})
}

func (p *process) kill(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	<-p.ended
}

func (p *process) signal(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
}

// ends expects an end with code 0.
func (p *process) ends(t testing.TB) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("the process does not end\n%s", p.stderr.String())
	}
	require.NoError(t, p.err, p.stderr.String())
}

// Two processes share an outbox while somebody writes; one after the other is killed and replaced. Nothing may be missing,
// each key's messages come in order, and only what a killed one had in flight comes again.
func TestKilledProcessesLoseNothing(t *testing.T) {
	t.Parallel()
	const (
		kills, keys, perKey = 6, 20, 200
		workers, batch      = 2, 50
	)
	url, pool := database(t)
	var sent atomic.Int64
	moments := make(chan struct{}, kills)
	ledger := newLedger(t, func(entry) error {
		<-time.After(500 * time.Microsecond) // so that something is in flight
		if n := sent.Add(1); n%(keys*perKey/(kills+2)) == 0 {
			select {
			case moments <- struct{}{}:
			default:
			}
		}
		return nil
	})
	args := []string{
		"forward", "--database", url, "--broker", ledger.url, "--workers", fmt.Sprint(workers), "--batch-size", fmt.Sprint(batch),
		"--poll-interval", "50ms",
	}
	running := []*process{launch(t, args...), launch(t, args...)}
	var writers sync.WaitGroup
	for k := range keys {
		writers.Go(func() {
			for i := 0; i < perKey; i += 10 {
				var payloads []string
				for j := range 10 {
					payloads = append(payloads, fmt.Sprintf("%03d", i+j))
				}
				publish(t, pool, "orders", fmt.Sprint("key ", k), payloads...)
			}
		})
	}
	for kill := range kills {
		select {
		case <-moments:
		case <-time.After(patience):
			t.Fatal("nothing comes any more")
		}
		running[kill%2].kill(t)
		running[kill%2] = launch(t, args...)
	}
	writers.Wait()
	eventually(t, "all is settled", func() bool { return count(t, pool, "public.outbox") == 0 })
	for _, p := range running {
		p.says(t, "msg=Forwarding")
		p.signal(t)
		p.ends(t)
	}
	seen, last := map[string]bool{}, map[string]string{}
	duplicates := 0
	for _, e := range ledger.all() {
		if seen[e.UUID] {
			duplicates++
			continue
		}
		seen[e.UUID] = true
		require.Greater(t, e.Payload, last[e.Key], "%s out of order", e.Key)
		last[e.Key] = e.Payload
	}
	t.Logf("%d kills: %d messages, %d of them again", kills, len(seen), duplicates)
	require.Len(t, seen, keys*perKey)
	require.LessOrEqual(t, duplicates, kills*workers*batch)
	require.Zero(t, count(t, pool, "public.outbox_dead"))
}

// gate is a broker that holds what comes until it is opened.
func gate(t testing.TB) (l *ledger, held *atomic.Int64, open func()) {
	t.Helper()
	held, opened := &atomic.Int64{}, make(chan struct{})
	open = sync.OnceFunc(func() { close(opened) })
	l = newLedger(t, func(entry) error {
		held.Add(1)
		<-opened
		return nil
	})
	t.Cleanup(open) // before the ledger's own, which waits for it
	return l, held, open
}

func TestTheFirstSignalDrains(t *testing.T) {
	t.Parallel()
	const messages, concurrency = 100, 7
	url, pool := database(t)
	ledger, held, open := gate(t)
	for range messages {
		publish(t, pool, "orders", "", "x")
	}
	p := launch(t, "forward", "--database", url, "--broker", ledger.url, "--workers", "1", "--publish-concurrency", fmt.Sprint(concurrency))
	eventually(t, "publishes are in flight", func() bool { return held.Load() == concurrency })
	p.signal(t)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt)) // so near to the first it is the same request
	p.says(t, "Stopping; publishes in flight may end")
	open()
	p.ends(t)
	require.Contains(t, p.stderr.String(), fmt.Sprintf("msg=Stopped outbox=public.outbox forwarded=%d failed_publishes=0 dead=0", concurrency))
	require.Len(t, ledger.all(), concurrency, "nothing else was begun")
	require.Equal(t, messages-concurrency, count(t, pool, "public.outbox"))

	run(t, "forward", "--database", url, "--broker", ledger.url, "--once")
	seen := map[string]bool{}
	for _, e := range ledger.all() {
		require.False(t, seen[e.UUID], "sent twice")
		seen[e.UUID] = true
	}
	require.Len(t, seen, messages)
}

func TestTheSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	ledger, held, _ := gate(t)
	publish(t, pool, "orders", "", "x")
	p := launch(t, "forward", "--database", url, "--broker", ledger.url, "--close-timeout", "1h", "--publish-timeout", "1h")
	eventually(t, "a publish is in flight", func() bool { return held.Load() == 1 })
	p.signal(t)
	p.says(t, "Stopping; publishes in flight may end")
	eventually(t, "the process ends", func() bool {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // again and again: one within a second of the first is an echo of it
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	var exit *exec.ExitError
	require.ErrorAs(t, p.err, &exit)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGTERM, status.Signal())
	require.Equal(t, 1, count(t, pool, "public.outbox"), "what was not acknowledged is still there")
}
