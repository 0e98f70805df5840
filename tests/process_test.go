package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const childVariable = "OUTBOX_TEST_CHILD"

// childOrder says what a process is to do.
type childOrder struct {
	URL, Ledger, Name string

	// A consumer's.
	Exchange string // its address; "": it is a forwarder
	Driver   string

	// A forwarder's.
	Workers, Batch int
	PollInterval   time.Duration
	RetryInitial   time.Duration
	MaxLatency     time.Duration // a publish takes up to this
}

// process is a forwarder process, or a consumer's.
type process struct {
	name   string
	source *source
	cmd    *exec.Cmd
	stdin  io.Closer // its end tells the process that this one is gone
	stderr bytes.Buffer
	ended  chan struct{} // closed after err is set
	err    error
}

var processes atomic.Int64

// launch starts a process. It ends with the test at the latest.
func launch(t testing.TB, l *ledger, order childOrder) *process {
	t.Helper()
	p, err := startProcess(l, order)
	require.NoError(t, err)
	t.Cleanup(p.remove)
	return p
}

func startProcess(l *ledger, order childOrder) (*process, error) {
	order.Name = fmt.Sprint("process ", processes.Add(1))
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	p := &process{name: order.Name, source: l.source(order.Name), ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0]) // this very binary
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// remove ends the process however it is.
func (p *process) remove() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// awaitRunning waits until the process's Run has begun its work.
func (p *process) awaitRunning(t testing.TB) {
	t.Helper()
	select {
	case <-p.source.running:
	case <-p.ended:
		t.Fatalf("%s ended: %v\n%s", p.name, p.err, p.stderr.Bytes())
	case <-time.After(patience):
		t.Fatalf("%s does not run", p.name)
	}
}

// kill ends the process with SIGKILL, not before it has said hello, and returns when all that it sent is on record.
func (p *process) kill(t testing.TB) {
	t.Helper()
	await(t, "the process has said hello", p.source.greeted)
	require.NoError(t, p.cmd.Process.Kill())
	<-p.ended
	await(t, "all that the process sent is on record", p.source.gone)
}

// terminate asks for a graceful stop by SIGTERM, once the process knows what that is, and checks that it was one.
func (p *process) terminate() error {
	select {
	case <-p.source.greeted:
	case <-p.ended:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: %w: %w\n%s", p.name, err, p.err, p.stderr.Bytes())
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		return fmt.Errorf("%s does not stop", p.name)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, p.err, p.stderr.Bytes())
	}
	return nil
}

// slow is a broker that takes its time.
type slow struct {
	message.Publisher
	most time.Duration
}

// Publish waits first.
func (s slow) Publish(topic string, messages ...*message.Message) error {
	if s.most > 0 {
		<-time.After(rand.N(s.most))
	}
	return s.Publisher.Publish(topic, messages...)
}

// runChild is the main function of a process.
func runChild(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent is gone
	}()
	var order childOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		return err
	}
	client, err := dialLedger(order.Ledger, order.Name)
	if err != nil {
		return err
	}
	if order.Exchange != "" {
		return runConsumer(ctx, order)
	}
	return runForwarder(ctx, client, order)
}

func runForwarder(ctx context.Context, client *client, order childOrder) error {
	config, err := pgxpool.ParseConfig(order.URL)
	if err != nil {
		return err
	}
	config.MaxConns = int32(order.Workers) + 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	forwarder, err := outbox.NewForwarder(pool, slow{client, order.MaxLatency}, outbox.ForwarderConfig{
		Workers: order.Workers, BatchSize: order.Batch, PollInterval: order.PollInterval, SweepShare: -1,
		Retry: outbox.RetryPolicy{Initial: order.RetryInitial, Max: 10 * order.RetryInitial, MaxAttempts: -1},
		Hooks: []outbox.Hook{client},
	}, nil)
	if err != nil {
		return err
	}
	go func() {
		<-forwarder.Running()
		_ = client.tell(lineRunning) // a stop may come first
	}()
	return forwarder.Run(ctx)
}
