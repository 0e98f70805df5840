package redis

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// subscriber is a message.Subscriber and a message.SubscribeInitializer. Each Subscribe is a subscriber of
// watermill-redisstream, and a consumer, of its own. It is safe for concurrent use.
type subscriber struct {
	client *redis.Client
	settings
	group  string
	logger watermill.LoggerAdapter

	mu      sync.Mutex
	closed  bool
	closing chan struct{}
	active  sync.WaitGroup
}

func newSubscriber(client *redis.Client, s settings, options broker.Options) *subscriber {
	return &subscriber{client: client, settings: s, group: options.Group, logger: options.Logger, closing: make(chan struct{})}
}

// SubscribeInitialize makes stream and group.
func (s *subscriber) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	return s.session(topic).create(ctx)
}

func (s *subscriber) session(topic string) *session {
	host, _ := os.Hostname() // only for whoever looks at the consumers' names
	return &session{
		UniversalClient: s.client, stream: topic, group: s.group, maxIdle: s.maxIdle,
		consumer: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), watermill.NewShortUUID()),
	}
}

// Subscribe subscribes until ctx is done or Close. It makes stream and group, and is an error if Redis can't be reached.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, broker.ErrClosed
	}
	session := s.session(topic)
	if err := session.create(ctx); err != nil {
		return nil, err
	}
	inner, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: session, Unmarshaller: session, Consumer: session.consumer, ConsumerGroup: s.group,
		NackResendSleep: s.nackDelay, BlockTime: readBlock, DisableIndefiniteInitialBlock: true,
		ClaimInterval: s.claimInterval, MaxIdleTime: s.maxIdle,
		CheckConsumersInterval: math.MaxInt64, // it may remove a consumer with a message; forgetDead does not
		// What is idle here is waiting in this process; keep was late.
		ShouldClaimPendingMessage: func(p redis.XPendingExt) bool { return p.Consumer != session.consumer },
	}, s.logger)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	in, err := inner.Subscribe(ctx, topic)
	if err != nil {
		cancel()
		return nil, err
	}
	out := make(chan *message.Message)
	s.active.Go(func() {
		defer close(out)
		last := s.relay(ctx, in, out, session)
		cancel()
		s.end(inner, session, last)
	})
	return out, nil
}

// delivery is a message that was handed on, and its id in the stream.
type delivery struct {
	msg *message.Message
	id  string
}

func (d delivery) acked() bool {
	if d.msg == nil {
		return false
	}
	select {
	case <-d.msg.Acked():
		return true
	default:
		return false
	}
}

// relay hands messages on until the end, and keeps them from being taken for abandoned. It gives the last one.
func (s *subscriber) relay(ctx context.Context, in <-chan *message.Message, out chan<- *message.Message, session *session) (last delivery) {
	fields := watermill.LogFields{"topic": session.stream, "consumer_group": session.group, "consumer_uuid": session.consumer}
	if err := session.forgetDead(ctx, forgetAfter); err != nil && ctx.Err() == nil {
		s.logger.Debug("Names of dead consumers stay in the group", fields.Add(watermill.LogFields{"err": err}))
	}
	alive := time.NewTicker(max(s.maxIdle/3, time.Millisecond))
	defer alive.Stop()
	var msg *message.Message
	for {
		next, to := in, chan<- *message.Message(nil)
		if msg != nil {
			next, to = nil, out
		}
		select {
		case received, ok := <-next:
			if !ok {
				return last
			}
			msg = received
		case to <- msg:
			last, msg = delivery{msg, session.current()}, nil
		case <-alive.C:
			if err := session.keep(ctx); err != nil && ctx.Err() == nil {
				s.logger.Error("Redis was not told that this consumer lives", err, fields)
			}
		case <-s.closing:
			return last
		case <-ctx.Done():
			return last
		}
	}
}

// end closes a subscription, and hands back what it still has. An ack that came just before the end counts.
func (s *subscriber) end(inner *redisstream.Subscriber, session *session, last delivery) {
	_ = inner.Close() // closes nothing but itself
	session.end()
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	if last.acked() {
		_ = session.XAck(ctx, session.stream, session.group, last.id).Err() // handBack meets the same trouble, and tells
	}
	if err := session.handBack(ctx); err != nil && !redis.HasErrorPrefix(err, "NOGROUP") {
		s.logger.Error("Redis did not take messages back; others get them after max_idle", err,
			watermill.LogFields{"topic": session.stream, "consumer_group": session.group, "max_idle": s.maxIdle})
	}
}

// Close ends the subscriptions. It waits until what they still had is handed back.
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
