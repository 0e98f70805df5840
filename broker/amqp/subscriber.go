package amqp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/rabbitmq/amqp091-go"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Waits before a subscription connects again.
const (
	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 5 * time.Second
)

// subscriber is a message.Subscriber and a message.SubscribeInitializer. It is safe for concurrent use.
type subscriber struct {
	settings
	link   *link
	group  string
	logger watermill.LoggerAdapter

	mu      sync.Mutex
	closed  bool
	closing chan struct{}
	active  sync.WaitGroup
}

func newSubscriber(l *link, s settings, options broker.Options) *subscriber {
	return &subscriber{settings: s, link: l, group: options.Group, logger: options.Logger, closing: make(chan struct{})}
}

// SubscribeInitialize makes exchange and queue.
func (s *subscriber) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	live, err := s.link.get(ctx)
	if err != nil {
		return err
	}
	return s.prepareQueue(live, topic)
}

func (s *subscriber) prepareQueue(live *live, topic string) error {
	if queue := queueName(topic, s.group); len(queue) > maxShort {
		return fmt.Errorf("amqp: the queue's name, topic_group, must have at most %d bytes: %.64q…", maxShort, queue)
	}
	if err := s.exchange(live, topic); err != nil {
		return err
	}
	return s.queue(live, topic, s.group)
}

// Subscribe subscribes until ctx is done or Close. It makes exchange and queue, and is an error if RabbitMQ can't be reached.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, broker.ErrClosed
	}
	c, err := s.consume(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	s.active.Go(func() {
		defer close(out)
		s.run(ctx, topic, c, out)
	})
	return out, nil
}

// consumer is a channel that gets a queue's messages. They end when the channel does, or the queue.
type consumer struct {
	channel    *amqp091.Channel
	deliveries <-chan amqp091.Delivery
}

func (s *subscriber) consume(ctx context.Context, topic string) (*consumer, error) {
	live, err := s.link.get(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.prepareQueue(live, topic); err != nil {
		return nil, err
	}
	c := &consumer{}
	if c.channel, err = live.Channel(); err == nil {
		err = c.channel.Qos(s.prefetch, 0, false)
	}
	if err == nil {
		c.deliveries, err = c.channel.Consume(queueName(topic, s.group), "", false, false, false, false, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("amqp: subscribing to %q: %w", topic, err)
	}
	return c, nil
}

// run handles messages, on one channel after another.
func (s *subscriber) run(ctx context.Context, topic string, c *consumer, out chan<- *message.Message) {
	fields := watermill.LogFields{"topic": topic, "consumer_group": s.group}
	wait := reconnectFirst
	for {
		if c != nil {
			s.deliver(ctx, c, out, fields)
			closeSoon(c.channel)
			wait = reconnectFirst
		}
		if !s.pause(ctx, wait) {
			return
		}
		wait = min(2*wait, reconnectMost)
		var err error
		if c, err = s.consume(ctx, topic); err != nil {
			s.logger.Error("Subscribing again failed", err, fields)
		}
	}
}

// pause is false when the subscription has ended.
func (s *subscriber) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return s.open(ctx)
	case <-s.closing:
	case <-ctx.Done():
	}
	return false
}

func (s *subscriber) open(ctx context.Context) bool {
	select {
	case <-s.closing:
		return false
	default:
		return ctx.Err() == nil
	}
}

// deliver hands on one message after the other, until they or the subscription end.
func (s *subscriber) deliver(ctx context.Context, c *consumer, out chan<- *message.Message, fields watermill.LogFields) {
	for {
		select {
		case d, ok := <-c.deliveries:
			if !ok {
				if s.open(ctx) {
					s.logger.Info("The channel has ended; subscribing again", fields)
				}
				return
			}
			if !s.handle(ctx, &d, out, fields) {
				return
			}
		case <-s.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// handle hands on one message until it is acknowledged. It does so too when the server is gone meanwhile, and will send it
// again: never are two copies with the handler at once. False means that the subscription has ended.
func (s *subscriber) handle(ctx context.Context, d *amqp091.Delivery, out chan<- *message.Message, fields watermill.LogFields) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		msg := unmarshal(d)
		msg.SetContext(ctx)
		select {
		case out <- msg:
		case <-s.closing:
			return false
		case <-ctx.Done():
			return false
		}
		open := true
		select {
		case <-msg.Acked():
		case <-msg.Nacked():
		case <-s.closing:
			open = false
		case <-ctx.Done():
			open = false
		}
		select {
		case <-msg.Acked():
			if err := d.Ack(false); err != nil {
				s.logger.Info("An ack did not reach RabbitMQ, which will send the message again",
					fields.Add(watermill.LogFields{"message_uuid": msg.UUID, "err": err}))
			}
			return open
		default:
		}
		if !open || !s.pause(ctx, s.nackDelay) {
			return false
		}
	}
}

// closeSoon closes a channel. A server that does not answer is not waited for.
func closeSoon(c *amqp091.Channel) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Close()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// Close ends the subscriptions. What they still had goes back to its queue.
func (s *subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.active.Wait()
	return nil
}
