package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

const (
	latencyWriters = 4
	busyRate       = 200 // commits a second
	calmRate       = 4
)

var wakeLatency = Scenario{
	Name: "wake-latency",
	About: "From the moment before COMMIT is sent to the arrival at the broker, one message a commit: at 200 commits/s, everybody " +
		"alone, and at 4 commits/s, when a forwarder has time to fall asleep, side by side. Ours with its doorbell, ours " +
		"polling only, and the stock forwarder with a poll of 1 s and of 100 ms. p50 and p99.",
	Run: runWakeLatency,
}

var listeners = []contender{
	ours,
	func(place relay.Place) (relay.Relay, error) {
		return relay.NewOurs(place, "polling only", outbox.ForwarderConfig{PollOnly: true})
	},
	stockQueue(100, time.Second),
	stockQueue(100, 100*time.Millisecond),
}

// latency is what one side showed.
type latency struct {
	name     string
	p50, p99 time.Duration
}

func runWakeLatency(ctx context.Context, env *Env) ([]report.Result, error) {
	busy, calm := make([]latency, len(listeners)), make([]latency, len(listeners))
	for i := range listeners {
		var err error
		if busy[i], err = env.latency(ctx, listeners[i], busyRate, env.duration(6*time.Second)); err != nil {
			return nil, err
		}
	}
	err := together(len(listeners), func(i int) (err error) {
		calm[i], err = env.latency(ctx, listeners[i], calmRate, env.duration(15*time.Second))
		return err
	})
	if err != nil {
		return nil, err
	}
	return append(compareLatency(busyRate, busy), compareLatency(calmRate, calm)...), nil
}

func compareLatency(rate int, found []latency) []report.Result {
	var results []report.Result
	for _, f := range found[1:] {
		results = append(results,
			report.New("wake-latency", fmt.Sprintf("p50 at %d commits/s", rate), "ms", milliseconds(found[0].p50), milliseconds(f.p50), f.name),
			report.New("wake-latency", fmt.Sprintf("p99 at %d commits/s", rate), "ms", milliseconds(found[0].p99), milliseconds(f.p99), f.name))
	}
	return results
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (e *Env) latency(ctx context.Context, c contender, rate int, lasts time.Duration) (found latency, err error) {
	r, err := c(relay.Fresh(e.Pool))
	if err != nil {
		return found, err
	}
	defer drop(ctx, r, &err)
	if err := r.Create(ctx); err != nil {
		return found, err
	}
	count := max(latencyWriters, int(float64(rate)*lasts.Seconds()))
	ledger := measure.NewLedger(count, latencyWriters).WithTimes()
	run := start(ctx, r, measure.Broker{Ledger: ledger})
	defer run.cancel()
	ledger.Restart()
	committed, want, err := e.commitAt(ctx, r, rate, count, ledger)
	if err != nil {
		return found, err
	}
	if err := e.settled(ctx, r); err != nil {
		return found, err
	}
	if err := run.stop(); err != nil {
		return found, err
	}
	if err := ledger.Seen().Compare(want).Err(); err != nil {
		return found, fmt.Errorf("%s: %w", r.Name(), err)
	}
	waits := make([]time.Duration, 0, count)
	for i, at := range committed {
		if arrival, came := ledger.Arrival(i); came {
			waits = append(waits, arrival-at)
		}
	}
	found = latency{r.Name(), measure.Percentile(waits, 50), measure.Percentile(waits, 99)}
	e.Progress("%s at %d commits/s: p50 %s, p99 %s", r.Name(), rate, found.p50.Round(time.Microsecond), found.p99.Round(time.Microsecond))
	return found, nil
}

// commitAt commits count messages on a fixed schedule, so that a slow commit does not thin out the load, and gives the times at
// which COMMIT was sent.
func (e *Env) commitAt(ctx context.Context, r relay.Relay, rate, count int, ledger *measure.Ledger) ([]time.Duration, measure.Expected, error) {
	committed := make([]time.Duration, count)
	written := make([]measure.Expected, latencyWriters)
	err := together(latencyWriters, func(w int) error {
		number := int64(0)
		for i := w; i < count; i += latencyWriters {
			due := time.Duration(i) * time.Second / time.Duration(rate)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(due - ledger.Now()):
			}
			number++
			m := measure.NewMessage(ctx, i, w, number, payloadSize)
			err := pgx.BeginFunc(ctx, e.Pool, func(tx pgx.Tx) error {
				if err := r.Publish(tx, measure.Topic, m); err != nil {
					return err
				}
				committed[i] = ledger.Now()
				return nil
			})
			if err != nil {
				return fmt.Errorf("writer: %w", err)
			}
			written[w].Add(m)
		}
		return nil
	})
	var want measure.Expected
	for _, w := range written {
		want.Join(w)
	}
	return committed, want, err
}
