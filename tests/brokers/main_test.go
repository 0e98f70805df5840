// Package brokers runs the same tests over every broker of broker/: the real ones where their addresses are in the
// environment, else stand-ins in this process; see internal/services.
package brokers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// patience is how long a test waits for a condition. It is not an assertion about time.
const patience = 90 * time.Second

func TestMain(m *testing.M) { testdb.Main(m) }

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-tick.C
	}
}

// run runs a forwarder, and gives what stops it. The test's end does, too.
func run(t testing.TB, f *outbox.Forwarder) (stop func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.WithoutCancel(t.Context())) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		require.NoError(t, f.Close())
		require.NoError(t, <-ended)
	}
	t.Cleanup(stop)
	select {
	case <-f.Running():
	case <-time.After(patience):
		t.Fatal("waited in vain until the forwarder runs")
	}
	return stop
}
