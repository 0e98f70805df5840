package scenario

import (
	"context"
	"time"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

var forward1ms = Scenario{
	Name: "forward-1ms",
	About: "Messages that wait in the table, to a broker that takes 1 ms a publish. Ours with 1,000 keys evenly used, 50, " +
		"one and none; the rivals know no keys, send one message at a time and are measured once on the rows with 1,000 " +
		"keys, all five side by side, as they wait nearly all the time. The best of the rounds.",
	Run: runForward1ms,
}

var forward0ms = Scenario{
	Name: "forward-0ms",
	About: "Messages that wait in the table, to a broker that takes no time. Everybody alone, in alternating order; the best " +
		"of the rounds, except that the offsets schema, whose cost grows with the backlog, runs once. Ours with 1,000 keys " +
		"evenly used, 50, one and none; the rivals know no keys.",
	Run: runForward0ms,
}

// spread is a distribution of ours' keys.
type spread struct {
	name string
	keys int
	part int // that part of the messages is enough
}

var spreads = []spread{{"1,000 keys", 1000, 1}, {"50 keys", 50, 1}, {"no key", 0, 1}, {"one key", 1, 8}}

// contender makes a relay with tables of its own.
type contender func(place relay.Place) (relay.Relay, error)

func ours(place relay.Place) (relay.Relay, error) {
	return relay.NewOurs(place, "", outbox.ForwarderConfig{})
}

func stockQueue(batch int, poll time.Duration) contender {
	return func(place relay.Place) (relay.Relay, error) { return relay.NewStockQueue(place, batch, poll), nil }
}

func stockOffsets(batch int) contender {
	return func(place relay.Place) (relay.Relay, error) { return relay.NewStockOffsets(place, batch), nil }
}

func naive(place relay.Place) (relay.Relay, error) { return relay.NewNaive(place), nil }

func cursor(place relay.Place) (relay.Relay, error) { return relay.NewCursor(place), nil }

// rivals of forwarding.
var rivals = []struct {
	relay       contender
	stock, slow bool
}{
	{relay: stockQueue(500, 0), stock: true},
	{relay: stockQueue(100, 0), stock: true},
	{relay: stockOffsets(500), stock: true, slow: true},
	{relay: stockOffsets(100), stock: true, slow: true},
	{relay: naive},
}

// best is a rival's figure and name.
type best struct {
	name string
	rate float64
}

func runForward1ms(ctx context.Context, env *Env) ([]report.Result, error) {
	const delay = time.Millisecond
	count := env.count(20_000, 200)
	found := make([]best, len(rivals))
	err := together(len(rivals), func(i int) error {
		r, err := rivals[i].relay(relay.Fresh(env.Pool))
		if err != nil {
			return err
		}
		rate, err := env.forward(ctx, job{relay: r, load: measure.Load{Count: count, Keys: 1000, Size: payloadSize}, delay: delay})
		found[i] = best{r.Name(), rate}
		return err
	})
	if err != nil {
		return nil, err
	}
	rates := make([]float64, len(spreads))
	for range env.rounds(3) {
		for i, s := range spreads {
			rate, err := env.forwardOurs(ctx, s, count, delay)
			if err != nil {
				return nil, err
			}
			rates[i] = max(rates[i], rate)
		}
	}
	return compareForward("forward-1ms", rates, found), nil
}

func runForward0ms(ctx context.Context, env *Env) ([]report.Result, error) {
	count := env.count(40_000, 500)
	rates, found := make([]float64, len(spreads)), make([]best, len(rivals))
	for round := range env.rounds(3) {
		for _, i := range measure.Alternate(len(spreads)+len(rivals), round) {
			if i < len(spreads) {
				rate, err := env.forwardOurs(ctx, spreads[i], count, 0)
				if err != nil {
					return nil, err
				}
				rates[i] = max(rates[i], rate)
				continue
			}
			i -= len(spreads)
			if round > 0 && rivals[i].slow {
				continue
			}
			r, err := rivals[i].relay(relay.Fresh(env.Pool))
			if err != nil {
				return nil, err
			}
			rate, err := env.forward(ctx, job{relay: r, load: measure.Load{Count: count, Keys: 1000, Size: payloadSize}})
			if err != nil {
				return nil, err
			}
			found[i] = best{r.Name(), max(found[i].rate, rate)}
		}
	}
	return compareForward("forward-0ms", rates, found), nil
}

func (e *Env) forwardOurs(ctx context.Context, s spread, count int, delay time.Duration) (float64, error) {
	r, err := ours(relay.Fresh(e.Pool))
	if err != nil {
		return 0, err
	}
	load := measure.Load{Count: max(1, count/s.part), Keys: s.keys, Size: payloadSize}
	return e.forward(ctx, job{relay: r, load: load, delay: delay})
}

// compareForward holds the first spread against every rival, and the others against the best stock configuration.
func compareForward(scenario string, rates []float64, found []best) []report.Result {
	var stock best
	for i, f := range found {
		if rivals[i].stock && f.rate > stock.rate {
			stock = f
		}
	}
	var results []report.Result
	for _, f := range found {
		results = append(results, report.New(scenario, spreads[0].name, "messages/s", rates[0], f.rate, f.name))
	}
	for i, s := range spreads[1:] {
		results = append(results, report.New(scenario, s.name, "messages/s", rates[i+1], stock.rate, stock.name))
	}
	return results
}
