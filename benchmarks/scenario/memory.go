package scenario

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

var memory = Scenario{
	Name: "memory",
	About: "Peak resident memory of a process of its own that forwards 200,000 pending messages of 10 KiB, and 50 of 20 MiB, with " +
		"default settings, to a broker that takes no time. The stock forwarder's memory goes with its batch, not with the " +
		"backlog, and its rows are dear to make: it gets a twentieth and a fifth of them.",
	Run: runMemory,
}

// backlog is what waits in the table.
type backlog struct {
	name               string
	load               measure.Load
	least, stockDivide int
}

var backlogs = []backlog{
	{name: "pending messages of 10 KiB", load: measure.Load{Count: 200_000, Keys: 1000, Size: 10 << 10}, least: 100, stockDivide: 20},
	{name: "pending messages of 20 MiB", load: measure.Load{Count: 50, Keys: 10, Size: 20 << 20}, least: 2, stockDivide: 5},
}

func runMemory(ctx context.Context, env *Env) ([]report.Result, error) {
	var results []report.Result
	for _, b := range backlogs {
		full := env.count(b.load.Count, b.least)
		us, err := env.peak(ctx, childOurs, b.load, full)
		if err != nil {
			return nil, err
		}
		part := max(b.least, full/b.stockDivide)
		stock, err := env.peak(ctx, childStock, b.load, part)
		if err != nil {
			return nil, err
		}
		results = append(results,
			report.New("memory", report.Figure(float64(full))+" "+b.name, "MiB", mebibytes(us.Peak), mebibytes(stock.Peak),
				fmt.Sprintf("%s, %s of them", stock.Name, report.Figure(float64(part)))))
	}
	return results, nil
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// peak fills the tables here and forwards in a child.
func (e *Env) peak(ctx context.Context, kind string, load measure.Load, count int) (found childReport, err error) {
	load.Count = count
	place := relay.Fresh(e.Pool)
	r, err := childRelay(kind, place)
	if err != nil {
		return found, err
	}
	defer drop(ctx, r, &err)
	if err := e.prepare(ctx, r, load); err != nil {
		return found, err
	}
	found, err = runChild(ctx, e.URL, childOrder{Relay: kind, Namespace: place.Namespace(), Load: load})
	if err != nil {
		return found, fmt.Errorf("%s in a child: %w", r.Name(), err)
	}
	if err := found.Seen.Compare(load.Expected(ctx)).Err(); err != nil {
		return found, fmt.Errorf("%s in a child: %w", r.Name(), err)
	}
	found.Name = r.Name()
	e.Progress("%s, %d messages of %d KiB: %.0f MiB", r.Name(), count, load.Size>>10, mebibytes(found.Peak))
	return found, nil
}

// runChild runs this program again, with an order in its environment.
func runChild(ctx context.Context, url string, order childOrder) (childReport, error) {
	program, err := os.Executable()
	if err != nil {
		return childReport{}, fmt.Errorf("find this program: %w", err)
	}
	environment, err := order.environment(url)
	if err != nil {
		return childReport{}, err
	}
	child := exec.CommandContext(ctx, program)
	child.Env = append(os.Environ(), environment...)
	var stdout, stderr bytes.Buffer
	child.Stdout, child.Stderr = &stdout, &stderr
	if err := child.Run(); err != nil {
		return childReport{}, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return parseReport(stdout.Bytes())
}
