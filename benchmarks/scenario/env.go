package scenario

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
)

const (
	poolSize    = 64
	payloadSize = 200
	fillChunk   = 1000
	settleTime  = time.Minute
)

// Env is what the scenarios share: one database and one pool for all sides.
type Env struct {
	URL   string
	Pool  *pgxpool.Pool
	Scale float64
	// Progress is told what is being measured. Never nil.
	Progress func(format string, args ...any)
}

// Open connects to the database.
func Open(ctx context.Context, url string, scale float64, progress func(string, ...any)) (*Env, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	config.MaxConns = poolSize
	config.MinConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &Env{URL: url, Pool: pool, Scale: scale, Progress: progress}, nil
}

// Close closes the pool.
func (e *Env) Close() { e.Pool.Close() }

// count scales a number of messages; least keeps a small scale meaningful.
func (e *Env) count(full, least int) int { return max(least, int(float64(full)*e.Scale)) }

// duration scales a time.
func (e *Env) duration(full time.Duration) time.Duration {
	return max(200*time.Millisecond, time.Duration(float64(full)*e.Scale))
}

// rounds is how often a measurement is repeated: once when it is only to be shown that it works.
func (e *Env) rounds(full int) int {
	if e.Scale < 0.1 {
		return 1
	}
	return full
}

// prepare makes the relay's tables and fills them in chunks of a transaction each, by the relay's own publisher.
func (e *Env) prepare(ctx context.Context, r relay.Relay, load measure.Load) error {
	if err := r.Create(ctx); err != nil {
		return fmt.Errorf("%s: %w", r.Name(), err)
	}
	chunk := max(1, min(fillChunk, 64<<20/max(1, load.Size)))
	for from := 0; from < load.Count; from += chunk {
		messages := make([]*message.Message, 0, chunk)
		for i := from; i < min(from+chunk, load.Count); i++ {
			messages = append(messages, load.Message(ctx, i))
		}
		err := pgx.BeginFunc(ctx, e.Pool, func(tx pgx.Tx) error { return r.Publish(tx, measure.Topic, messages...) })
		if err != nil {
			return fmt.Errorf("%s: fill: %w", r.Name(), err)
		}
	}
	if _, err := e.Pool.Exec(ctx, "VACUUM (ANALYZE) "+r.Table()); err != nil {
		return fmt.Errorf("%s: analyze: %w", r.Name(), err)
	}
	return nil
}

// drop removes a relay's tables, also after ctx is done.
func drop(ctx context.Context, r relay.Relay, err *error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	*err = errors.Join(*err, r.Drop(ctx))
}

// running is a relay at work.
type running struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// start runs a relay. CPU profiles carry its name as the label "relay".
func start(ctx context.Context, r relay.Relay, broker message.Publisher) *running {
	ctx, cancel := context.WithCancel(ctx)
	run := &running{name: r.Name(), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		pprof.Do(ctx, pprof.Labels("relay", r.Name()), func(ctx context.Context) { run.err = r.Run(ctx, broker) })
	}()
	return run
}

// wait waits for what is to come, unless the relay ends before.
func (r *running) wait(ctx context.Context, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-r.done:
		return errors.Join(fmt.Errorf("%s stopped too early", r.name), r.err)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", r.name, context.Cause(ctx))
	}
}

// stop ends the relay and waits for it.
func (r *running) stop() error {
	r.cancel()
	select {
	case <-r.done:
	case <-time.After(settleTime):
		return fmt.Errorf("%s does not stop", r.name)
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w", r.name, r.err)
	}
	return nil
}

// settled waits until nothing is pending.
func (e *Env) settled(ctx context.Context, r relay.Relay) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for {
		left, err := r.Pending(ctx)
		if err == nil && left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s: %d messages are still pending", r.Name(), left), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// job is one measured run of a relay over a load that waits in its table.
type job struct {
	relay  relay.Relay
	load   measure.Load
	delay  time.Duration // what the broker takes a message
	sample time.Duration // stop then, if it is not done; 0: run to the end
}

// forward prepares, runs and checks a job, and gives messages a second from a standing start to the last
// acknowledgement.
func (e *Env) forward(ctx context.Context, j job) (rate float64, err error) {
	defer drop(ctx, j.relay, &err)
	if err := e.prepare(ctx, j.relay, j.load); err != nil {
		return 0, err
	}
	rate, err = e.run(ctx, j)
	if err == nil {
		e.Progress("%s, %d keys: %.0f messages/s", j.relay.Name(), j.load.Keys, rate)
	}
	return rate, err
}

func (e *Env) run(ctx context.Context, j job) (float64, error) {
	ledger := measure.NewLedger(j.load.Count, j.load.Keys)
	if j.sample > 0 {
		sampled, cancel := context.WithTimeoutCause(ctx, j.sample, errSampled)
		defer cancel()
		ctx = sampled
	}
	runtime.GC()
	ledger.Restart()
	reached := ledger.Reached(j.load.Count)
	r := start(context.WithoutCancel(ctx), j.relay, measure.Broker{Delay: j.delay, Ledger: ledger})
	defer r.cancel()
	err := r.wait(ctx, reached)
	took, delivered := ledger.Took(), int64(j.load.Count)
	if errors.Is(err, errSampled) {
		took, delivered = ledger.Now(), ledger.Delivered()
		return float64(delivered) / took.Seconds(), r.stop()
	}
	if err == nil {
		err = e.settled(ctx, j.relay)
	}
	if err = errors.Join(err, r.stop()); err != nil {
		return 0, err
	}
	if err := ledger.Seen().Compare(j.load.Expected(ctx)).Err(); err != nil {
		return 0, fmt.Errorf("%s did not do its work: %w", r.name, err)
	}
	return float64(delivered) / took.Seconds(), nil
}

var errSampled = errors.New("sampled")

// together runs functions side by side.
func together(count int, run func(i int) error) error {
	errs := make([]error, count)
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() { errs[i] = run(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// Settings are for a server that is started for the run. No checkpoint is to fall into a measurement.
func Settings() []string {
	return []string{"shared_buffers=512MB", "max_wal_size=16GB", "checkpoint_timeout=1h"}
}

// Machine describes the database.
func (e *Env) Machine(ctx context.Context) (string, error) {
	var version, fsync, commit, buffers string
	err := e.Pool.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'),
		current_setting('synchronous_commit'), current_setting('shared_buffers')`).Scan(&version, &fsync, &commit, &buffers)
	if err != nil {
		return "", fmt.Errorf("ask for settings: %w", err)
	}
	return fmt.Sprintf("PostgreSQL %s (fsync %s, synchronous_commit %s, shared_buffers %s)", version, fsync, commit, buffers), nil
}
