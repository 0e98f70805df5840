package kafka

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// errUnanswered is the verdict on a record of which nothing was heard when the time was up.
var errUnanswered = errors.New("kafka: no answer from the broker in time")

// clients are producers for batches, one for each that is under way at a time: a flush concerns the whole client, and what
// is buffered has to be sent as a whole.
type clients struct {
	opts []kgo.Opt

	mu     sync.Mutex
	idle   []*kgo.Client
	busy   map[*kgo.Client]bool
	closed bool
}

func (c *clients) borrow() (*kgo.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, broker.ErrClosed
	}
	var client *kgo.Client
	if last := len(c.idle) - 1; last >= 0 {
		client, c.idle = c.idle[last], c.idle[:last]
	} else {
		var err error
		if client, err = kgo.NewClient(c.opts...); err != nil {
			return nil, err
		}
	}
	c.busy[client] = true
	return client, nil
}

// giveBack keeps a client for the next batch, unless it has something left in its hands.
func (c *clients) giveBack(client *kgo.Client, usable bool) {
	c.mu.Lock()
	delete(c.busy, client)
	usable = usable && !c.closed
	if usable {
		c.idle = append(c.idle, client)
	}
	c.mu.Unlock()
	if !usable {
		client.Close()
	}
}

// close ends what is under way, which fails.
func (c *clients) close() {
	c.mu.Lock()
	c.closed = true
	all := c.idle
	c.idle = nil
	for client := range c.busy {
		all = append(all, client)
	}
	c.mu.Unlock()
	for _, client := range all {
		client.Close()
	}
}

// flush sends records together and gives a verdict on each. Of those of one partition the first ones are acknowledged and
// all behind the first failure have failed: franz-go fails what it has buffered for the partition (its finishBatch), and
// all of the batch is buffered before anything is sent.
func (c *clients) flush(ctx context.Context, records []*kgo.Record) []error {
	verdicts := make([]error, len(records))
	client, err := c.borrow()
	if err != nil {
		for i := range verdicts {
			verdicts[i] = err
		}
		return verdicts
	}
	var mu sync.Mutex
	for i := range records {
		verdicts[i] = errUnanswered
		client.Produce(ctx, records[i], func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			verdicts[i] = err
		})
	}
	err = client.Flush(ctx)
	mu.Lock()
	told := slices.Clone(verdicts) // before the client is closed, which changes the others and is no reason to tell
	mu.Unlock()
	if slices.ContainsFunc(told, recreated) {
		c.giveBack(client, false)
		c.renew()
	} else {
		c.giveBack(client, err == nil)
	}
	return told
}

// recreated says that a topic was deleted and made again. franz-go sticks to the ID that it had when it was first heard of.
func recreated(err error) bool {
	return errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID)
}

// renew replaces the clients that are idle, which know what the one that failed knew.
func (c *clients) renew() {
	c.mu.Lock()
	old := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, client := range old {
		client.Close()
	}
}
