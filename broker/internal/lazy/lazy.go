// Package lazy makes connections when they are needed: a program starts, and goes on, while its broker is down.
package lazy

import (
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Value is made by the first Get that succeeds. It is safe for concurrent use; callers that come together share one try.
type Value[T any] struct {
	// Make makes it. The next Get tries again after an error.
	Make func() (T, error)

	flight singleflight.Group
	mu     sync.Mutex
	value  *T
	closed bool
}

// Get gives the value, or the error of making it; broker.ErrClosed after Close.
func (v *Value[T]) Get() (T, error) {
	if value, err := v.Peek(); value != nil || err != nil {
		return deref(value), err
	}
	made, err, _ := v.flight.Do("", func() (any, error) {
		if value, err := v.Peek(); value != nil || err != nil {
			return deref(value), err
		}
		value, err := v.Make()
		if err != nil {
			return value, err
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.value = &value
		return value, nil
	})
	if err != nil {
		var none T
		return none, err
	}
	return made.(T), nil //nolint:forcetypeassert // it is what the function above returns
}

// Peek gives the value if it was made, else nil; broker.ErrClosed after Close.
func (v *Value[T]) Peek() (*T, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, broker.ErrClosed
	}
	return v.value, nil
}

// Close closes the value with shut, if there is one. It waits for a Make that is under way. Later calls return nil.
func (v *Value[T]) Close(shut func(T) error) error {
	v.mu.Lock()
	first := !v.closed
	v.closed = true
	v.mu.Unlock()
	if !first {
		return nil
	}
	_, _, _ = v.flight.Do("", func() (any, error) { return nil, nil }) //nolint:nilnil // only waits
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.value == nil {
		return nil
	}
	return shut(*v.value)
}

func deref[T any](value *T) T {
	if value == nil {
		var none T
		return none
	}
	return *value
}
