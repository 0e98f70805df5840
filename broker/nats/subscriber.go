package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

const (
	// ackBuffer keeps acknowledgements while the connection is interrupted; the client's own default.
	ackBuffer = 8 << 20
	// againAfter is how long a subscription that ended waits before it is made again.
	againAfter = time.Second
	// drainTimeout bounds the wait for a message that is just coming when a subscription is closed.
	drainTimeout = 2 * time.Second
)

// subscriber is the message.Subscriber and message.SubscribeInitializer of a group.
type subscriber struct {
	*connection
	streams *streams
	closing context.Context //nolint:containedctx // the subscriber's own life
	cancel  context.CancelFunc

	mu      sync.Mutex
	running sync.WaitGroup
	asking  sync.RWMutex // read-locked by subscriptions that wait for a message
}

func newSubscriber(s *settings) *subscriber {
	c := newConnection(s, ackBuffer)
	sub := &subscriber{connection: c, streams: newStreams(s, &c.denials)}
	sub.closing, sub.cancel = context.WithCancel(context.Background())
	return sub
}

// SubscribeInitialize makes the stream and the group's consumer, if they are not there.
func (s *subscriber) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(s.closing, publishTimeout)
	defer cancel()
	_, err := s.consumer(ctx, topic)
	return err
}

// Subscribe gives the group's messages, one at a time, until ctx is done or the subscriber is closed.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if !s.begin() {
		return nil, broker.ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closing, cancel)
	consumer, err := s.consumer(ctx, topic)
	if err != nil {
		stop()
		cancel()
		s.running.Done()
		return nil, err
	}
	sub := &subscription{s: s, topic: topic, output: make(chan *message.Message)}
	go func() {
		defer s.running.Done()
		defer close(sub.output)
		defer cancel()
		defer stop()
		sub.run(ctx, consumer)
	}()
	return sub.output, nil
}

func (s *subscriber) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		return false
	}
	s.running.Add(1)
	return true
}

// Close hands back what is not acknowledged, and closes the channels. It may be called twice.
func (s *subscriber) Close() error {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
	return s.close()
}

// consumer gives the durable consumer of the group for a topic.
func (s *subscriber) consumer(ctx context.Context, topic string) (jetstream.Consumer, error) {
	l, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	s.streams.forget(topic)
	stream, err := s.streams.of(ctx, l, topic)
	if err != nil {
		return nil, err
	}
	if stream == "" { // it may not be asked for: then it must be the one that would be made
		stream = streamName(topic)
	}
	group := name(s.settings.Group)
	config := jetstream.ConsumerConfig{
		Durable: consumerName(s.settings.Group, topic), FilterSubject: topic, Description: "group " + group,
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1,
		AckWait: s.settings.ackWait, MaxAckPending: s.settings.maxAckPending,
	}
	var consumer jetstream.Consumer
	subjects := []string{
		fmt.Sprintf("$JS.API.CONSUMER.INFO.%s.%s", stream, config.Durable),
		fmt.Sprintf("$JS.API.CONSUMER.CREATE.%s.%s.%s", stream, config.Durable, topic),
	}
	err = s.denials.guard(ctx, subjects, func(ctx context.Context) (err error) {
		consumer, err = s.findOrCreate(ctx, l, stream, config)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("nats: the consumer of group %q for %q: %w", s.settings.Group, topic, err)
	}
	return consumer, nil
}

func (s *subscriber) findOrCreate(ctx context.Context, l *link, stream string, want jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := l.Consumer(ctx, stream, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return l.CreateOrUpdateConsumer(ctx, stream, want)
	}
	if err != nil {
		return nil, err
	}
	has := consumer.CachedInfo().Config
	if has.FilterSubject != want.FilterSubject {
		return nil, &GroupError{Group: s.settings.Group, Topic: want.FilterSubject, Stream: stream, Consumer: want.Durable}
	}
	if has.AckWait == want.AckWait && has.MaxAckPending == want.MaxAckPending {
		return consumer, nil
	}
	has.AckWait, has.MaxAckPending = want.AckWait, want.MaxAckPending
	return l.CreateOrUpdateConsumer(ctx, stream, has)
}

func (s *subscriber) fields(topic string) watermill.LogFields {
	return watermill.LogFields{"topic": topic, "group": s.settings.Group}
}
