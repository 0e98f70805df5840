package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cenkalti/backoff/v5"
)

// client posts orders, again and again until it gets an answer, always with the same idempotency key.
type client struct {
	url  string
	http *http.Client

	requests atomic.Int64
}

// post gives the answer's status, which is final: below 500.
func (c *client) post(ctx context.Context, key string, o order) (status int, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return 0, err
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = 10 * time.Millisecond
	return backoff.Retry(ctx, func() (int, error) {
		c.requests.Add(1)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/orders", bytes.NewReader(body))
		if err != nil {
			return 0, backoff.Permanent(err)
		}
		request.Header.Set("Idempotency-Key", key)
		response, err := c.http.Do(request)
		if err != nil {
			return 0, err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode >= http.StatusInternalServerError {
			return 0, errors.New(response.Status)
		}
		return response.StatusCode, nil
	}, backoff.WithBackOff(wait), backoff.WithMaxTries(20))
}

// lossy is a network that loses one answer in five, when the service has done what it was asked for.
type lossy struct {
	next  http.RoundTripper
	calls atomic.Int64
	lost  atomic.Int64
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err == nil && l.calls.Add(1)%5 == 0 {
		l.lost.Add(1)
		return nil, errors.Join(errors.New("connection reset"), response.Body.Close())
	}
	return response, err
}

// answers counts what the client was told in the end.
type answers struct{ taken, invalid, declined atomic.Int64 }

func (a *answers) count(status int) error {
	switch status {
	case http.StatusCreated, http.StatusOK:
		a.taken.Add(1)
	case http.StatusUnprocessableEntity:
		a.invalid.Add(1)
	case http.StatusPaymentRequired:
		a.declined.Add(1)
	default:
		return fmt.Errorf("the answer has the status %d", status)
	}
	return nil
}

// redelivery lets brokers deliver one message in four a second time, as they do after a fault.
type redelivery struct {
	mu     sync.Mutex
	sent   int
	events map[string]bool // by UUID, those that reached a broker
}

func (r *redelivery) decorate(publisher message.Publisher) message.Publisher {
	return redelivering{publisher, r}
}

type redelivering struct {
	message.Publisher
	redelivery *redelivery
}

func (p redelivering) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := p.Publisher.Publish(topic, msg); err != nil {
			return err
		}
		if p.redelivery.again(topic, msg) {
			if err := p.Publisher.Publish(topic, msg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *redelivery) again(topic string, msg *message.Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events == nil {
		r.events = map[string]bool{}
	}
	if topic == ordersTopic {
		r.events[msg.UUID] = true
	}
	r.sent++
	return r.sent%4 == 0
}

// reached counts the events that reached the broker about orders whose ids begin so.
func (r *redelivery) reached(ids string) (events int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.events {
		if strings.HasPrefix(id, ids) {
			events++
		}
	}
	return events
}
