package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

const (
	lateWriters = 24
	lateKeys    = 200
	bulkWriters = 4
	bulkRows    = 3000
	bulkTakes   = 2 * time.Second
	// Longer than any relay's poll: who moves nothing for so long moves nothing more.
	quiescence = 3 * time.Second
)

var lateCommits = Scenario{
	Name: "late-commits",
	About: "24 writers, each transaction updating the row of its aggregate, one of 200, and publishing; half of them write another " +
		"table first, a third commit up to 20 ms late. Four more write 3,000 rows in a transaction of two seconds. All while the " +
		"relay runs. What is lost, out of order by key and sent twice, and messages/s from the first commit until the last " +
		"message has come. A ratio of lost or disordered messages is null where the rival has none.",
	Run: runLateCommits,
}

// lateRun is what a relay made of it.
type lateRun struct {
	name  string
	rate  float64
	tally measure.Tally
}

func runLateCommits(ctx context.Context, env *Env) ([]report.Result, error) {
	var runs []lateRun
	for i, c := range []contender{ours, stockQueue(500, 0), stockOffsets(500), naive, cursor} {
		run, err := env.late(ctx, c, env.duration(3*time.Second))
		if err != nil {
			return nil, err
		}
		env.Progress("%s: %.0f messages/s, %+v", run.name, run.rate, run.tally)
		if err := run.tally.Err(); i == 0 && err != nil {
			return nil, fmt.Errorf("%s: %w", run.name, err)
		}
		runs = append(runs, run)
	}
	us := runs[0]
	var results []report.Result
	for _, r := range runs[1:] {
		results = append(results, report.New("late-commits", "forwarded", "messages/s", us.rate, r.rate, r.name))
	}
	for _, r := range runs[1:] {
		results = append(results,
			report.New("late-commits", "lost", "messages", float64(us.tally.Lost), float64(r.tally.Lost), r.name),
			report.New("late-commits", "out of order by key", "messages", float64(us.tally.OutOfOrder), float64(r.tally.OutOfOrder), r.name),
			report.New("late-commits", "sent twice", "messages", float64(us.tally.Duplicates), float64(r.tally.Duplicates), r.name))
	}
	return results, nil
}

func (e *Env) late(ctx context.Context, c contender, lasts time.Duration) (found lateRun, err error) {
	r, err := c(relay.Fresh(e.Pool))
	if err != nil {
		return found, err
	}
	defer drop(ctx, r, &err)
	if err := r.Create(ctx); err != nil {
		return found, err
	}
	shop, err := e.openShop(ctx, r)
	if err != nil {
		return found, err
	}
	ledger := measure.NewLedger(bulkWriters*bulkRows*10+int((lasts+bulkTakes).Seconds()*100_000), lateKeys+bulkWriters)
	run := start(ctx, r, measure.Broker{Ledger: ledger})
	defer run.cancel()
	ledger.Restart()
	want, err := shop.trade(ctx, lasts)
	if err != nil {
		return found, fmt.Errorf("%s: %w", r.Name(), err)
	}
	if err := run.wait(ctx, e.quiet(ctx, r, ledger, want.Count)); err != nil {
		return found, err
	}
	if err := run.stop(); err != nil {
		return found, err
	}
	seen := ledger.Seen()
	return lateRun{r.Name(), float64(seen.Delivered) / ledger.Latest().Seconds(), seen.Compare(want)}, nil
}

// quiet is closed when everything is settled, or nothing has moved for long.
func (e *Env) quiet(ctx context.Context, r relay.Relay, ledger *measure.Ledger, count int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		moved, at := int64(-1), time.Now()
		for time.Since(at) < quiescence && ctx.Err() == nil {
			if now := ledger.Delivered(); now != moved {
				moved, at = now, time.Now()
			}
			if left, err := r.Pending(ctx); err == nil && left == 0 && moved == int64(count) {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return done
}

// shop is the business beside the outbox.
type shop struct {
	env             *Env
	relay           relay.Relay
	aggregates, log string
	bulkRows        int64 // a transaction
	index           atomic.Int64
}

func (e *Env) openShop(ctx context.Context, r relay.Relay) (*shop, error) {
	s := &shop{
		env: e, relay: r, bulkRows: int64(min(bulkRows, e.count(10*bulkRows, 200))),
		aggregates: pgx.Identifier{r.Namespace(), "aggregates"}.Sanitize(), log: pgx.Identifier{r.Namespace(), "audit"}.Sanitize(),
	}
	_, err := e.Pool.Exec(ctx, `CREATE TABLE `+s.aggregates+` (key int PRIMARY KEY, number bigint NOT NULL DEFAULT 0);
		CREATE TABLE `+s.log+` (entry text NOT NULL);
		INSERT INTO `+s.aggregates+` (key) SELECT generate_series(0, `+strconv.Itoa(lateKeys-1)+`)`)
	if err != nil {
		return nil, fmt.Errorf("business tables: %w", err)
	}
	return s, nil
}

// trade lets everybody write for a while, and says what was committed.
func (s *shop) trade(ctx context.Context, lasts time.Duration) (measure.Expected, error) {
	written := make([]measure.Expected, lateWriters+bulkWriters)
	began := time.Now()
	err := together(len(written), func(w int) error {
		for number := int64(0); time.Since(began) < lasts; number += s.bulkRows {
			var messages []*message.Message
			var err error
			if w < lateWriters {
				messages, err = s.order(ctx, w)
			} else {
				messages, err = s.bulk(ctx, lateKeys+w-lateWriters, number, min(bulkTakes, lasts))
			}
			if err != nil {
				return fmt.Errorf("writer: %w", err)
			}
			for _, m := range messages {
				written[w].Add(m)
			}
		}
		return nil
	})
	var want measure.Expected
	for _, w := range written {
		want.Join(w)
	}
	return want, err
}

// order changes one aggregate and publishes that, in the order in which transactions get hold of its row.
func (s *shop) order(ctx context.Context, writer int) (sent []*message.Message, err error) {
	err = pgx.BeginFunc(ctx, s.env.Pool, func(tx pgx.Tx) error {
		if writer%2 == 0 {
			if _, err := tx.Exec(ctx, `INSERT INTO `+s.log+` VALUES ('an order comes')`); err != nil {
				return err
			}
		}
		key, number := rand.IntN(lateKeys), int64(0)
		err := tx.QueryRow(ctx, `UPDATE `+s.aggregates+` SET number = number + 1 WHERE key = $1 RETURNING number`, key).Scan(&number)
		if err != nil {
			return err
		}
		sent = s.messages(ctx, key, number, 1)
		if err := s.relay.Publish(tx, measure.Topic, sent...); err != nil {
			return err
		}
		if rand.IntN(3) == 0 {
			return pause(ctx, time.Duration(rand.Int64N(int64(20*time.Millisecond))))
		}
		return nil
	})
	return sent, err
}

// bulk publishes half of its messages early and half late.
func (s *shop) bulk(ctx context.Context, key int, after int64, takes time.Duration) (sent []*message.Message, err error) {
	err = pgx.BeginFunc(ctx, s.env.Pool, func(tx pgx.Tx) error {
		for half := range int64(2) {
			messages := s.messages(ctx, key, after+half*(s.bulkRows/2)+1, s.bulkRows/2)
			if err := s.relay.Publish(tx, measure.Topic, messages...); err != nil {
				return err
			}
			sent = append(sent, messages...)
			if err := pause(ctx, takes/2); err != nil {
				return err
			}
		}
		return nil
	})
	return sent, err
}

func (s *shop) messages(ctx context.Context, key int, number, count int64) []*message.Message {
	messages := make([]*message.Message, count)
	first := int(s.index.Add(count) - count)
	for i := range messages {
		messages[i] = measure.NewMessage(ctx, first+i, key, number+int64(i), payloadSize)
	}
	return messages
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
