package command

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// patience is how long a test waits for a condition. It is not an assertion about time.
const patience = 30 * time.Second

// childVariable makes the test's binary the command itself, with the fake broker.
const childVariable = "COMMAND_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(Main(broker.NewMux(ledgerDriver{})))
	}
	testdb.Main(m)
}

// call is one call of the command in this process.
type call struct {
	Program
	stdout, stderr buffer
}

// buffer may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newCall(args ...string) *call {
	c := &call{}
	c.Program = Program{
		Args: args, Stdin: strings.NewReader(""), Stdout: &c.stdout, Stderr: &c.stderr,
		Brokers: broker.NewMux(ledgerDriver{}),
	}
	return c
}

func (c *call) stdin(text string) *call         { c.Stdin = strings.NewReader(text); return c }
func (c *call) environ(entries ...string) *call { c.Environ = entries; return c }

// ends runs it and expects an exit code.
func (c *call) ends(t testing.TB, code int) *call {
	t.Helper()
	got := c.Run(t.Context())
	require.Equal(t, code, got, "stdout:\n%s\nstderr:\n%s", c.stdout.String(), c.stderr.String())
	return c
}

// starts runs it until the returned function is called, which gives the exit code.
func (c *call) starts(t testing.TB) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	code := make(chan int, 1)
	go func() { code <- c.Run(ctx) }()
	stop = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { stop() })
	return stop
}

// run is one call that must succeed, and gives what it printed.
func run(t testing.TB, args ...string) string {
	t.Helper()
	return newCall(args...).ends(t, ExitOK).stdout.String()
}

// database gives an outbox, migrated by the command.
func database(t testing.TB) (url string, pool *pgxpool.Pool) {
	t.Helper()
	url = testdb.URL(t)
	run(t, "migrate", "up", "--database", url)
	return url, testdb.Open(t, url)
}

// publish writes messages of a topic and key into the outbox, and gives their UUIDs.
func publish(t testing.TB, pool *pgxpool.Pool, topic, key string, payloads ...string) []string {
	t.Helper()
	var uuids []string
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		publisher, err := outbox.NewPgxPublisher(tx, outbox.PublisherConfig{}, nil)
		if err != nil {
			return err
		}
		for _, payload := range payloads {
			msg := message.NewMessage("", []byte(payload))
			outbox.SetKey(msg, key)
			if err := publisher.Publish(topic, msg); err != nil {
				return err
			}
			uuids = append(uuids, msg.UUID)
		}
		return nil
	}))
	return uuids
}

func count(t testing.TB, pool *pgxpool.Pool, from string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&n))
	return n
}

// write makes a file.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-tick.C
	}
}

// await waits for a signal.
func await(t testing.TB, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(patience):
		t.Fatalf("waited in vain until %s", what)
	}
}
