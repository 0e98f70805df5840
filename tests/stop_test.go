package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// Forwarders are stopped at random moments under load, in each way there is, and the next one goes on. Nothing may be
// lost, and nothing sent twice.
func TestGracefulStopsLoseNothingAndSendNothingTwice(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url, connections(30))
	migrate(t, pool)
	ledger := newLedger(nil)
	s := stops{pool: pool, ledger: ledger, order: childOrder{
		URL: url, Ledger: ledger.serve(t), Workers: 3, Batch: 100, PollInterval: 50 * time.Millisecond,
		RetryInitial: time.Second, MaxLatency: 2 * time.Millisecond,
	}}
	writers := &load{pool: pool, keys: 50, writers: 4, rows: 20, until: make(chan struct{}), ledger: ledger, ahead: 5000}
	writers.prepare(t)
	writers.begin(t)

	lanes := []struct {
		stop  func(int) error
		times int
	}{{s.close, 40}, {s.cancel, 40}, {s.terminate, 10}, {s.terminate, 10}} // side by side, so that stops overlap with work
	errs := make(chan error, len(lanes))
	var stopping sync.WaitGroup
	for _, lane := range lanes {
		stopping.Go(func() {
			for n := range scaled(t, lane.times) {
				if err := lane.stop(n); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	stopping.Wait()
	close(errs)
	require.NoError(t, <-errs)
	close(writers.until)
	committed := writers.end(t)

	last, err := s.forwarder("the last")
	require.NoError(t, err)
	start(t, last)
	stranded := ledger.drained(t, pool, patience)
	result := ledger.tally(t, committed)
	t.Logf("%d stops (Close %d, context %d, SIGTERM %d): %v, stranded %d",
		s.closed.Load()+s.cancelled.Load()+s.terminated.Load(), s.closed.Load(), s.cancelled.Load(), s.terminated.Load(), result, stranded)
	require.Zero(t, stranded)
	require.Zero(t, result.lost, "lost")
	require.Zero(t, result.duplicates, "sent twice")
	require.Zero(t, result.disorder, "out of order")
}

// stops are the ways to stop, each at a moment of its own.
type stops struct {
	pool   *pgxpool.Pool
	ledger *ledger
	order  childOrder

	closed, cancelled, terminated atomic.Int64
}

func (s *stops) forwarder(name string) (*outbox.Forwarder, error) {
	return outbox.NewForwarder(s.pool, slow{local{s.ledger, name}, s.order.MaxLatency}, outbox.ForwarderConfig{
		Workers: s.order.Workers, BatchSize: s.order.Batch, PollInterval: s.order.PollInterval, SweepShare: -1,
	}, nil)
}

// moment returns now, soon, or after some messages.
func (s *stops) moment() error {
	if n := rand.IntN(400); n > 40 {
		select {
		case <-s.ledger.reached(s.ledger.count() + n):
		case <-time.After(patience):
			return errors.New("nothing was forwarded")
		}
	}
	<-time.After(rand.N(5 * time.Millisecond))
	return nil
}

func (s *stops) close(n int) error {
	f, err := s.forwarder(fmt.Sprint("closed ", n))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.Background()) }()
	err = errors.Join(s.moment(), f.Close(), f.Close())
	if ran := <-ended; !errors.Is(ran, outbox.ErrClosed) { // the stop may have come first
		err = errors.Join(err, ran)
	}
	s.closed.Add(1)
	return err
}

func (s *stops) cancel(n int) error {
	f, err := s.forwarder(fmt.Sprint("cancelled ", n))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	err = s.moment()
	cancel()
	s.cancelled.Add(1)
	return errors.Join(err, <-ended)
}

func (s *stops) terminate(int) error {
	p, err := startProcess(s.ledger, s.order)
	if err != nil {
		return err
	}
	defer p.remove()
	err = s.moment()
	s.terminated.Add(1)
	return errors.Join(err, p.terminate())
}
