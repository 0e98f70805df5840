package outbox

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lifecycle is the one start and stop state machine of a forwarder.
type lifecycle struct {
	mu        sync.Mutex
	running   bool // Run; RunOnce may be called beside it, and beside itself
	closed    bool
	announced bool
	closing   chan struct{} // closed by the first Close
	active    sync.WaitGroup
	timedOut  atomic.Bool
}

// run is one call of Run or RunOnce.
type run struct {
	life     *lifecycle
	isRun    bool
	stop     context.Context // done: start nothing more
	abandon  context.Context // done: wait for nothing more
	timedOut atomic.Bool     // publishes in flight were given up
	cancel   []context.CancelFunc
}

func (l *lifecycle) begin(ctx context.Context, closeTimeout time.Duration, isRun bool) (*run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, ErrClosed
	case isRun && l.running:
		return nil, ErrAlreadyRunning
	}
	l.running = l.running || isRun
	l.active.Add(1)

	r := &run{life: l, isRun: isRun}
	stop, cancelStop := context.WithCancel(ctx)
	abandon, cancelAbandon := context.WithCancel(context.WithoutCancel(ctx))
	r.stop, r.abandon, r.cancel = stop, abandon, []context.CancelFunc{cancelStop, cancelAbandon}
	context.AfterFunc(stop, func() {
		timer := time.AfterFunc(closeTimeout, cancelAbandon)
		context.AfterFunc(abandon, func() { timer.Stop() })
	})
	go func() {
		select {
		case <-l.closing:
			cancelStop()
		case <-stop.Done():
		}
	}()
	return r, nil
}

// end must be called exactly once. It turns a stop that timed out into its error.
func (r *run) end(err error) error {
	for _, cancel := range r.cancel {
		cancel()
	}
	if r.timedOut.Load() {
		err = ErrCloseTimeout
		r.life.timedOut.Store(true)
	}
	r.life.mu.Lock()
	if r.isRun {
		r.life.running = false
	}
	r.life.mu.Unlock()
	r.life.active.Done()
	return err
}

// announce closes the channel that says that Run runs; a second Run finds it closed.
func (l *lifecycle) announce(running chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.announced {
		l.announced = true
		close(running)
	}
}

func (l *lifecycle) close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.closing)
	}
	l.mu.Unlock()
	l.active.Wait()
	if l.timedOut.Load() {
		return ErrCloseTimeout
	}
	return nil
}
