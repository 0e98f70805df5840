// Package suitetest runs Watermill's universal suite over the outbox's table, with the publisher and the subscriber of
// watermill-sql in whichever version.
package suitetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	suite "github.com/ThreeDotsLabs/watermill/pubsub/tests"
)

const (
	// Interval is how often a subscriber polls and resends here. At watermill-sql's second one test takes minutes.
	Interval = 5 * time.Millisecond
	// Connections is what a subscriber's pool needs: a test of the suite has fifty, each with a transaction.
	Connections = 60
)

// Subscriber is watermill-sql's.
type Subscriber interface {
	message.Subscriber
	message.SubscribeInitializer
}

// OverTable runs the suite, with thousands of messages a test, or if it is to be short with about a hundred. Pair makes a
// publisher and a subscriber.
func OverTable(t *testing.T, short bool, pair func(t *testing.T) (message.Publisher, Subscriber)) {
	t.Helper()
	features := suite.Features{
		Persistent: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true, ForceShort: short,
	}
	suite.TestPubSub(t, features, func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		publisher, subscriber := pair(t)
		return publisher, &punctual{Subscriber: subscriber, closing: make(chan struct{})}
	}, nil)
}

// punctual is watermill-sql's subscriber whose channels are closed when Close returns. Its own Close returns a moment
// before, which the suite now and then takes for a channel left open.
type punctual struct {
	Subscriber
	closing  chan struct{}
	close    sync.Once
	relaying sync.WaitGroup
}

// Subscribe passes the messages on.
func (p *punctual) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := p.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	p.relaying.Go(func() {
		defer close(out)
		for msg := range in {
			select {
			case out <- msg:
			case <-p.closing:
			case <-ctx.Done():
			}
		}
	})
	return out, nil
}

// Close waits for the ends of the channels.
func (p *punctual) Close() error {
	p.close.Do(func() { close(p.closing) })
	defer p.relaying.Wait()
	return p.Subscriber.Close()
}
