package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameRequest is how long after the first signal another one is the same request: timeout(1) signals its child and then the
// group that the child is in, and so do some supervisors.
const sameRequest = time.Second

// untilSignalled gives a context that the first SIGINT or SIGTERM ends. A later one ends the process at once, as if nobody had
// listened to it.
func untilSignalled() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		first := time.Now()
		cancel()
		for s := range signals {
			if time.Since(first) >= sameRequest {
				signal.Reset(s)
				endBy(s)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// endBy ends the process by the signal, so that who waits for it sees which, or plainly where a process can't signal itself.
func endBy(s os.Signal) {
	if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(s) != nil {
		os.Exit(ExitFailure)
	}
}
