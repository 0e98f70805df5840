package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/crew"
)

// cluster is an open one.
type cluster struct {
	settings    settings
	publisher   *publisher
	subscribers crew.Subscribers
}

func open(s settings) (*cluster, error) {
	topics := &topics{fallback: s.maxBytes, strict: !s.createTopics, known: map[string]topic{}}
	opts := s.clientOptions()
	single, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	topics.admin = kadm.NewClient(single)
	return &cluster{settings: s, publisher: &publisher{
		single: single, topics: topics,
		batches: clients{opts: append(opts, kgo.ManualFlushing(), kgo.ProducerBatchMaxBytes(maxBatchBytes)), busy: map[*kgo.Client]bool{}},
	}}, nil
}

// Publisher gives the publisher, an outbox.BatchPublisher.
func (c *cluster) Publisher() message.Publisher { return c.publisher }

// Subscriber makes one that belongs to the group.
func (c *cluster) Subscriber() (message.Subscriber, error) {
	return c.subscribers.Join(c.settings.Group, func() (message.Subscriber, error) {
		return newSubscriber(&c.settings, c.publisher.topics.admin)
	})
}

// Classify says what an error of the publisher means.
func (c *cluster) Classify(err error) outbox.FailureKind { return classify(err) }

// Ping asks any broker for its answer.
func (c *cluster) Ping(ctx context.Context) error {
	if err := c.publisher.single.Ping(ctx); err != nil {
		return fmt.Errorf("kafka: %w", withHint(err))
	}
	return nil
}

// withHint says what the protocol only hints at.
func withHint(err error) error {
	if errors.Is(err, kerr.IllegalSaslState) {
		return fmt.Errorf("%w (this listener takes no user: leave user and password out, or use another port)", err)
	}
	return err
}

// Close closes the publisher and the subscribers.
func (c *cluster) Close() error {
	return errors.Join(c.publisher.Close(), c.subscribers.Close())
}
