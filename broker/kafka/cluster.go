package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// cluster is an open one.
type cluster struct {
	settings  settings
	publisher *publisher

	mu          sync.Mutex
	subscribers []message.Subscriber
	closed      bool
}

func open(s settings) (*cluster, error) {
	topics := &topics{fallback: s.maxBytes, strict: !s.createTopics, known: map[string]topic{}}
	opts := append(s.clientOptions(), kgo.ProducerBatchMaxBytesFn(topics.batchBytes))
	single, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	topics.admin = kadm.NewClient(single)
	return &cluster{settings: s, publisher: &publisher{
		single: single, topics: topics,
		batches: clients{opts: append(opts, kgo.ManualFlushing()), busy: map[*kgo.Client]bool{}},
	}}, nil
}

// Publisher gives the publisher, an outbox.BatchPublisher.
func (c *cluster) Publisher() message.Publisher { return c.publisher }

// Subscriber makes one that belongs to the group.
func (c *cluster) Subscriber() (message.Subscriber, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, broker.ErrClosed
	}
	s, err := newSubscriber(&c.settings, c.publisher.topics.admin)
	if err == nil {
		c.subscribers = append(c.subscribers, s)
	}
	return s, err
}

// Classify says what an error of the publisher means.
func (c *cluster) Classify(err error) outbox.FailureKind { return classify(err) }

// Ping asks any broker for its answer.
func (c *cluster) Ping(ctx context.Context) error {
	if err := c.publisher.single.Ping(ctx); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}

// Close closes the publisher and the subscribers.
func (c *cluster) Close() error {
	c.mu.Lock()
	subscribers := c.subscribers
	c.closed, c.subscribers = true, nil
	c.mu.Unlock()
	errs := []error{c.publisher.Close()}
	for _, s := range subscribers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
