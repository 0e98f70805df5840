package nats

import (
	"context"
	"errors"
	"regexp"
	"sync"
)

// denials finds the call that a server has refused: what the user is not permitted is told per connection and not in answer
// to a request, which just stays without one. The zero value is ready, and safe for concurrent use.
type denials struct {
	mu       sync.Mutex
	watchers map[string]map[*watcher]bool // by subject
}

// watcher waits for a subject to be denied.
type watcher struct {
	denied chan struct{} // closed then
	err    *PermissionError
}

// watch begins to watch a subject, until the function that it gives is called.
func (d *denials) watch(subject string) (*watcher, func()) {
	w := &watcher{denied: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watchers == nil {
		d.watchers = map[string]map[*watcher]bool{}
	}
	if d.watchers[subject] == nil {
		d.watchers[subject] = map[*watcher]bool{}
	}
	d.watchers[subject][w] = true
	return w, func() { d.forget(subject, w) }
}

func (d *denials) forget(subject string, w *watcher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watchers[subject], w)
	if len(d.watchers[subject]) == 0 {
		delete(d.watchers, subject)
	}
}

var violation = regexp.MustCompile(`(?i)publish to "([^"]*)"`)

// deny tells those who watch the subject of which a server's permissions violation speaks.
func (d *denials) deny(err error) {
	match := violation.FindStringSubmatch(err.Error())
	if match == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.watchers[match[1]] {
		w.err = &PermissionError{Subject: match[1], Err: err}
		close(w.denied)
	}
	delete(d.watchers, match[1])
}

// guard calls f, and ends its context as soon as one of the subjects that it publishes to is denied; it then returns a
// *PermissionError.
func (d *denials) guard(ctx context.Context, subjects []string, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, subject := range subjects {
		w, forget := d.watch(subject)
		defer forget() //nolint:gocritic // few
		go func() {
			select {
			case <-w.denied:
				cancel(w.err)
			case <-ctx.Done():
			}
		}()
	}
	err := f(ctx)
	if denied := new(PermissionError); err != nil && errors.As(context.Cause(ctx), &denied) {
		return denied
	}
	return err
}
