package gochannel

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// pause is between a nack and the next delivery, so that a handler that fails at once does not spin.
const pause = 10 * time.Millisecond

// subscriber is the message.Subscriber of a group.
type subscriber struct {
	channel *channel
	group   string
	ctx     context.Context // done when it is closed
	cancel  context.CancelFunc

	mu      sync.Mutex // no Subscribe while Close begins
	running sync.WaitGroup
}

func newSubscriber(c *channel, group string) *subscriber {
	s := &subscriber{channel: c, group: group}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// SubscribeInitialize makes the group, so that it gets all that is published from now on.
func (s *subscriber) SubscribeInitialize(topic string) error {
	if s.ctx.Err() != nil {
		return broker.ErrClosed
	}
	s.channel.topic(topic).group(s.group)
	return nil
}

// Subscribe gives the group's messages until ctx is done or the subscriber is closed, the next one when the one before it
// is acked.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.SubscribeInitialize(topic); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	out := make(chan *message.Message)
	s.running.Go(func() {
		defer close(out)
		defer cancel()
		defer stop()
		consume(ctx, s.channel.topic(topic).group(s.group), out)
	})
	return out, nil
}

// consume delivers until ctx is done.
func consume(ctx context.Context, g *group, out chan<- *message.Message) {
	for {
		e, err := g.take(ctx)
		if err != nil {
			return
		}
		if !deliver(ctx, e, out) {
			g.release(e)
			return
		}
		g.ack(e)
	}
}

// deliver says whether the message was acked, at whichever try. It was not if ctx was done before.
func deliver(ctx context.Context, e *entry, out chan<- *message.Message) bool {
	for ctx.Err() == nil {
		if try(ctx, clone(e.message), out) {
			return true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return false
}

func try(ctx context.Context, msg *message.Message, out chan<- *message.Message) (acked bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	msg.SetContext(ctx)
	select {
	case out <- msg:
	case <-ctx.Done():
		return false
	}
	select {
	case <-msg.Acked():
		return true
	case <-msg.Nacked():
		return false
	case <-ctx.Done():
		select { // what was acked before the end must not be delivered again
		case <-msg.Acked():
			return true
		default:
			return false
		}
	}
}

// Close ends the subscriptions and waits for them; what is not acked then is delivered again, to others of the group. It
// may be called twice.
func (s *subscriber) Close() error {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
	return nil
}
