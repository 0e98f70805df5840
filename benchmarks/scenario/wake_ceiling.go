package scenario

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

const ceilingWriters = 32

var wakeCeiling = Scenario{
	Name: "wake-ceiling",
	About: "What waking the forwarder costs those who write: commits a second of 32 writers, one message a commit, while our " +
		"forwarder works beside them. With the doorbell, without it (polling only), and with a plain trigger that notifies at each " +
		"insert instead. In alternating order; the best of the rounds.",
	Run: runWakeCeiling,
}

// waking is a way to wake the forwarder.
type waking struct {
	name   string
	config outbox.ForwarderConfig
	notify bool
}

var wakings = []waking{
	{name: "doorbell"},
	{name: "wake-up off", config: outbox.ForwarderConfig{Schema: outbox.Schema{NoDoorbell: true}, PollOnly: true}},
	{name: "a trigger that always notifies", config: outbox.ForwarderConfig{Schema: outbox.Schema{NoDoorbell: true}, PollOnly: true}, notify: true},
}

func runWakeCeiling(ctx context.Context, env *Env) ([]report.Result, error) {
	rates := make([]float64, len(wakings))
	for round := range env.rounds(4) {
		for _, i := range measure.Alternate(len(wakings), round) {
			rate, err := env.ceiling(ctx, wakings[i], env.duration(2*time.Second))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", wakings[i].name, err)
			}
			env.Progress("%s: %.0f commits/s", wakings[i].name, rate)
			rates[i] = max(rates[i], rate)
		}
	}
	metric := fmt.Sprintf("%d writers, forwarder at work", ceilingWriters)
	return []report.Result{
		report.New("wake-ceiling", metric, "commits/s", rates[0], rates[1], "ours, "+wakings[1].name),
		report.New("wake-ceiling", metric, "commits/s", rates[0], rates[2], "ours, "+wakings[2].name),
	}, nil
}

func (e *Env) ceiling(ctx context.Context, w waking, lasts time.Duration) (rate float64, err error) {
	r, err := relay.NewOurs(relay.Fresh(e.Pool), w.name, w.config)
	if err != nil {
		return 0, err
	}
	defer drop(ctx, r, &err)
	if err := r.Create(ctx); err != nil {
		return 0, err
	}
	if w.notify {
		hangUp, err := e.alwaysNotify(ctx, r)
		if err != nil {
			return 0, err
		}
		defer hangUp()
	}
	ledger := measure.NewLedger(1000+int(100_000*lasts.Seconds()), ceilingWriters)
	run := start(ctx, r, measure.Broker{Ledger: ledger})
	defer run.cancel()
	want, took, err := e.commitFor(ctx, r, lasts)
	if err != nil {
		return 0, err
	}
	if err := e.settled(ctx, r); err != nil {
		return 0, err
	}
	if err := run.stop(); err != nil {
		return 0, err
	}
	return float64(want.Count) / took.Seconds(), ledger.Seen().Compare(want).Err()
}

// commitFor lets all writers commit, each on its own connection and with a key of its own.
func (e *Env) commitFor(ctx context.Context, r *relay.Ours, lasts time.Duration) (measure.Expected, time.Duration, error) {
	var index atomic.Int64
	written := make([]measure.Expected, ceilingWriters)
	began := time.Now()
	err := together(ceilingWriters, func(w int) error {
		conn, err := e.Pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("writer: %w", err)
		}
		defer conn.Release()
		publisher := r.PublisherOn(conn)
		for number := int64(1); time.Since(began) < lasts; number++ {
			m := measure.NewMessage(ctx, int(index.Add(1)-1), w, number, payloadSize)
			if err := publisher.Publish(measure.Topic, m); err != nil {
				return fmt.Errorf("writer: %w", err)
			}
			written[w].Add(m)
		}
		return nil
	})
	took := time.Since(began)
	var want measure.Expected
	for _, w := range written {
		want.Join(w)
	}
	return want, took, err
}

// alwaysNotify adds the trigger that people write first, and somebody who listens.
func (e *Env) alwaysNotify(ctx context.Context, r relay.Relay) (hangUp func(), err error) {
	schema := pgx.Identifier{r.Namespace()}.Sanitize()
	for _, statement := range []string{
		`CREATE FUNCTION ` + schema + `.shout() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN PERFORM pg_notify('outbox_bench', ''); RETURN NULL; END $$`,
		`CREATE TRIGGER shout AFTER INSERT ON ` + r.Table() + ` FOR EACH STATEMENT EXECUTE FUNCTION ` + schema + `.shout()`,
	} {
		if _, err := e.Pool.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("notify trigger: %w", err)
		}
	}
	conn, err := pgx.Connect(ctx, e.URL)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if _, err := conn.Exec(ctx, "LISTEN outbox_bench"); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	listening, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := conn.WaitForNotification(listening); err != nil {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
		_ = conn.Close(context.WithoutCancel(ctx)) // the wait that was cancelled has closed it
	}, nil
}
