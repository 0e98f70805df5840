package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

var heldTransaction = Scenario{
	Name: "held-transaction",
	About: "Forwarding while somebody holds a transaction open: one that reads (a report, a dump), and one that writes (a " +
		"forgotten session). Neither lets vacuum or index scans forget settled rows. Ours, held against quiet, in alternating " +
		"order, the best of the rounds; and the rivals, sampled for at most ten seconds. 1,000 keys, a broker that takes no time.",
	Run: runHeld,
}

// state is what somebody else does to the database.
type state struct {
	name string
	hold func(ctx context.Context, tx pgx.Tx) error // nil: nothing
	mode pgx.TxOptions
}

var states = []state{
	{name: "quiet"},
	{name: "a reading transaction held open", hold: holdReading, mode: pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}},
	{name: "a writing transaction held open", hold: holdWriting},
}

func holdReading(ctx context.Context, tx pgx.Tx) error {
	var classes int64
	return tx.QueryRow(ctx, `SELECT count(*) FROM pg_class`).Scan(&classes)
}

func holdWriting(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `CREATE TEMPORARY TABLE held (id int) ON COMMIT DROP; INSERT INTO held VALUES (1)`)
	return err
}

// during runs f while the state lasts. The transaction is older than the messages.
func (e *Env) during(ctx context.Context, s state, f func() error) (err error) {
	if s.hold == nil {
		return f()
	}
	tx, err := e.Pool.BeginTx(ctx, s.mode)
	if err != nil {
		return fmt.Errorf("hold a transaction: %w", err)
	}
	defer func() { err = errors.Join(err, tx.Rollback(context.WithoutCancel(ctx))) }()
	if err := s.hold(ctx, tx); err != nil {
		return fmt.Errorf("hold a transaction: %w", err)
	}
	return f()
}

func runHeld(ctx context.Context, env *Env) ([]report.Result, error) {
	load := measure.Load{Count: env.count(80_000, 1000), Keys: 1000, Size: payloadSize}
	rates := make([]float64, len(states))
	for round := range env.rounds(2) {
		for _, i := range measure.Alternate(len(states), round) {
			_, rate, err := env.forwardDuring(ctx, states[i], ours, job{load: load})
			if err != nil {
				return nil, err
			}
			rates[i] = max(rates[i], rate)
		}
	}
	var results []report.Result
	for i, s := range states[1:] {
		results = append(results, report.New("held-transaction", s.name, "messages/s", rates[i+1], rates[0], "ours, quiet"))
	}
	for i, s := range states[1:] {
		for _, rival := range []struct {
			relay  contender
			sample time.Duration
		}{{naive, 10 * time.Second}, {stockQueue(500, 0), 5 * time.Second}, {stockOffsets(500), 3 * time.Second}} {
			name, rate, err := env.forwardDuring(ctx, s, rival.relay, job{load: load, sample: env.duration(rival.sample)})
			if err != nil {
				return nil, err
			}
			results = append(results, report.New("held-transaction", s.name, "messages/s", rates[i+1], rate, name))
		}
	}
	return results, nil
}

func (e *Env) forwardDuring(ctx context.Context, s state, c contender, j job) (name string, rate float64, err error) {
	r, err := c(relay.Fresh(e.Pool))
	if err != nil {
		return "", 0, err
	}
	j.relay = r
	err = e.during(ctx, s, func() (err error) {
		e.Progress("%s:", s.name)
		rate, err = e.forward(ctx, j)
		return err
	})
	return r.Name(), rate, err
}
