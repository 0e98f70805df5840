// Package crew keeps the subscribers that a broker has given out.
package crew

import (
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Subscribers are those of one broker. The zero value is ready. They are safe for concurrent use.
type Subscribers struct {
	mu     sync.Mutex
	all    []message.Subscriber
	closed bool
}

// Join makes a subscriber of a group, and keeps it. Without a group it returns broker.ErrNoGroup, after Close
// broker.ErrClosed.
func (s *Subscribers) Join(group string, subscriber func() (message.Subscriber, error)) (message.Subscriber, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, broker.ErrClosed
	case group == "":
		return nil, broker.ErrNoGroup
	}
	made, err := subscriber()
	if err != nil {
		return nil, err
	}
	s.all = append(s.all, made)
	return made, nil
}

// Closed says whether Close was called.
func (s *Subscribers) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close closes them all, once.
func (s *Subscribers) Close() error {
	s.mu.Lock()
	all := s.all
	s.closed, s.all = true, nil
	s.mu.Unlock()
	var problems []error
	for _, one := range all {
		problems = append(problems, one.Close())
	}
	return errors.Join(problems...)
}
