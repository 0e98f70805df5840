package scenario

import (
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

const (
	limitWorkers = 4   // ours' default
	limitBatch   = 500 // ours' default
)

var limit = Scenario{
	Name: "limit",
	About: "What the bare database gives: as many workers as ours has by default claim and delete as many rows at a time, through " +
		"pgx, in any order, and do nothing with them. Beside it ours, with order by key, to a publisher that only counts. " +
		"In alternating order; the median of the rounds, since either side has lucky ones.",
	Run: runLimit,
}

func runLimit(ctx context.Context, env *Env) ([]report.Result, error) {
	load := measure.Load{Count: env.count(150_000, 2000), Keys: 1000, Size: payloadSize}
	sides := []func(context.Context, measure.Load) (float64, error){env.oursToCounter, env.bareDatabase}
	rates := make([][]float64, len(sides))
	for round := range env.rounds(5) {
		for _, i := range measure.Alternate(len(sides), round) {
			rate, err := sides[i](ctx, load)
			if err != nil {
				return nil, err
			}
			rates[i] = append(rates[i], rate)
		}
	}
	return []report.Result{
		report.New("limit", "1,000 keys, to a publisher that only counts", "messages/s", measure.Percentile(rates[0], 50), measure.Percentile(rates[1], 50), "claim and delete, nothing else"),
	}, nil
}

func (e *Env) oursToCounter(ctx context.Context, load measure.Load) (rate float64, err error) {
	r, err := ours(relay.Fresh(e.Pool))
	if err != nil {
		return 0, err
	}
	defer drop(ctx, r, &err)
	if err := e.prepare(ctx, r, load); err != nil {
		return 0, err
	}
	runtime.GC()
	counter := measure.NewCounter(load.Count)
	began := time.Now()
	run := start(ctx, r, counter)
	defer run.cancel()
	if err := run.wait(ctx, counter.Reached()); err != nil {
		return 0, err
	}
	rate = float64(load.Count) / time.Since(began).Seconds()
	if err := e.settled(ctx, r); err != nil {
		return 0, err
	}
	if err := run.stop(); err != nil {
		return 0, err
	}
	if got := counter.Count(); got != int64(load.Count) {
		return 0, fmt.Errorf("%s published %d messages instead of %d", r.Name(), got, load.Count)
	}
	e.Progress("%s, to a counter: %.0f messages/s", r.Name(), rate)
	return rate, nil
}

// bareDatabase uses the naive relay's table, which has the least to it.
func (e *Env) bareDatabase(ctx context.Context, load measure.Load) (rate float64, err error) {
	table := relay.NewNaive(relay.Fresh(e.Pool))
	defer drop(ctx, table, &err)
	if err := e.prepare(ctx, table, load); err != nil {
		return 0, err
	}
	runtime.GC()
	var deleted atomic.Int64
	began := time.Now()
	pprof.Do(ctx, pprof.Labels("relay", "limit"), func(ctx context.Context) {
		err = together(limitWorkers, func(int) error { return e.claimAndDelete(ctx, table.Table(), &deleted) })
	})
	if err != nil {
		return 0, err
	}
	rate = float64(load.Count) / time.Since(began).Seconds()
	if got := deleted.Load(); got != int64(load.Count) {
		return 0, fmt.Errorf("limit: deleted %d rows instead of %d", got, load.Count)
	}
	e.Progress("claim and delete: %.0f messages/s", rate)
	return rate, nil
}

func (e *Env) claimAndDelete(ctx context.Context, table string, deleted *atomic.Int64) error {
	query := `DELETE FROM ` + table + ` WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM ` + table + ` WHERE published_at IS NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
		RETURNING id, topic, uuid, payload, metadata`
	for {
		rows, err := e.Pool.Query(ctx, query, limitBatch)
		if err != nil {
			return fmt.Errorf("claim and delete: %w", err)
		}
		var (
			id              int64
			topic, uuid     string
			payload, header []byte
		)
		tag, err := pgx.ForEachRow(rows, []any{&id, &topic, &uuid, &payload, &header}, func() error { return nil })
		if err != nil {
			return fmt.Errorf("claim and delete: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		deleted.Add(tag.RowsAffected())
	}
}
