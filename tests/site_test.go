package tests

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// site is an outbox, a broker, and a forwarder between them in this process, to whose connections things happen.
type site struct {
	pool      *pgxpool.Pool // the test's own way to the database
	ledger    *ledger
	forwarder *outbox.Forwarder
	gate      *gate
	charges   *charges
	written   map[string]int
}

const forwarderName = "forwarder"

// newSite makes an outbox in the database of url, and a forwarder with one worker that goes by another URL.
func newSite(t testing.TB, url, forwarderURL string) *site {
	t.Helper()
	s := &site{pool: testdb.Open(t, url, connections(20)), ledger: newLedger(nil), gate: &gate{}, charges: &charges{}, written: map[string]int{}}
	migrate(t, s.pool)
	s.forwarder = s.newForwarder(t, forwarderURL, 1)
	return s
}

func (s *site) newForwarder(t testing.TB, url string, workers int) *outbox.Forwarder {
	t.Helper()
	broker := local{s.ledger, forwarderName}
	pool := testdb.Open(t, url, connections(int32(workers)+1))
	f, err := outbox.NewForwarder(pool, broker, outbox.ForwarderConfig{
		Workers: workers, SweepShare: -1, Hooks: []outbox.Hook{s.gate, s.charges, broker},
	}, nil)
	require.NoError(t, err)
	return f
}

// put writes n messages in one transaction, of four keys.
func (s *site) put(t testing.TB, n int) {
	t.Helper()
	tx, err := s.pool.Begin(t.Context())
	require.NoError(t, err)
	for i := range n {
		key := fmt.Sprint("k", i%4)
		s.written[key]++
		require.NoError(t, publish(t.Context(), tx, key, s.written[key], s.written[key]))
	}
	require.NoError(t, tx.Commit(t.Context()))
}

// awaitTrouble waits until the forwarder says that it does not get on.
func (s *site) awaitTrouble(t testing.TB) error {
	t.Helper()
	eventually(t, "the forwarder is unwell", func() bool { return s.forwarder.Health() != nil })
	return s.forwarder.Health()
}

// awaitPeace waits until everything is forwarded and settled and the forwarder is well again, and checks that nobody was
// charged.
func (s *site) awaitPeace(t testing.TB) tally {
	t.Helper()
	require.Zero(t, s.ledger.drained(t, s.pool, patience), "stranded")
	eventually(t, "the forwarder is well", func() bool { return s.forwarder.Health() == nil })
	s.charges.requireNone(t)
	require.Zero(t, count(t, s.pool, "public.outbox_dead"))
	result := s.ledger.tally(t, s.written)
	t.Log(result)
	require.Zero(t, result.lost, "lost")
	require.Zero(t, result.disorder, "out of order")
	return result
}

// requireUntouched checks that so many messages wait as they were written.
func (s *site) requireUntouched(t testing.TB, n int) {
	t.Helper()
	require.Equal(t, n, count(t, s.pool, "public.outbox"))
	require.Equal(t, n, count(t, s.pool, "public.outbox WHERE attempts = 0 AND NOT holds AND next_attempt_at IS NULL"))
}

// gate is a hook that stops a forwarder between the broker's acknowledgement and the settlement.
type gate struct {
	mu      sync.Mutex
	left    int // publishes until it closes
	reached chan struct{}
	release chan struct{}
}

// shut closes the gate at the n-th publish from now that the broker acknowledges, and says when that is. The forwarder
// goes on when it is opened.
func (g *gate) shut(t testing.TB, n int) (reached <-chan struct{}, open func()) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	release := make(chan struct{})
	g.left, g.reached, g.release = n, make(chan struct{}), release
	open = sync.OnceFunc(func() { close(release) })
	t.Cleanup(open)
	return g.reached, open
}

// OnPublish stops.
func (g *gate) OnPublish(e outbox.PublishEvent) {
	g.mu.Lock()
	if e.Err != nil || g.left == 0 {
		g.mu.Unlock()
		return
	}
	g.left--
	release := g.release
	if g.left > 0 {
		g.mu.Unlock()
		return
	}
	close(g.reached)
	g.mu.Unlock()
	<-release
}

// charges is a hook that counts what messages were charged with, and claims that failed.
type charges struct{ attempts, retried, dead, claimsRefused atomic.Int64 }

// OnClaim counts failures.
func (c *charges) OnClaim(e outbox.ClaimEvent) {
	if e.Err != nil {
		c.claimsRefused.Add(1)
	}
}

// OnPublish counts failures charged before.
func (c *charges) OnPublish(e outbox.PublishEvent) { c.attempts.Add(int64(e.Attempts)) }

// OnSettle counts failures charged now.
func (c *charges) OnSettle(e outbox.SettleEvent) {
	c.retried.Add(int64(e.Retried))
	c.dead.Add(int64(e.Dead))
}

func (c *charges) requireNone(t testing.TB) {
	t.Helper()
	require.Zero(t, c.attempts.Load()+c.retried.Load()+c.dead.Load(), "a message was charged with what was not its fault")
}

// OnSettle notes what the forwarder knows to be settled.
func (b local) OnSettle(e outbox.SettleEvent) {
	if e.Err == nil {
		b.settled(b.name, e.Acked)
	}
}
