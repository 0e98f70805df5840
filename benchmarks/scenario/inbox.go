package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

const consumerBlock = 500 // messages

var inboxCost = Scenario{
	Name: "inbox",
	About: "What knowing messages again costs a consumer: handled messages a second, with the inbox and with a transaction alone, " +
		"the same handler and database, one message at a time and eight. The handler inserts an order and updates its customer. " +
		"Over pgx and over database/sql with both drivers; the median of small blocks in alternating order.",
	Run: runInbox,
}

// consumer is one way to handle messages, measured again and again.
type consumer struct {
	driver   string
	inbox    bool
	parallel int
	handler  message.HandlerFunc
	times    []time.Duration
	handled  int
}

// rate is of the median block.
func (c *consumer) rate() float64 {
	return consumerBlock / measure.Percentile(c.times, 50).Seconds()
}

func runInbox(ctx context.Context, env *Env) (results []report.Result, err error) {
	namespace := relay.Fresh(env.Pool)
	us, err := relay.NewOurs(namespace, "", outbox.ForwarderConfig{})
	if err != nil {
		return nil, err
	}
	defer drop(ctx, us, &err)
	if err := us.Create(ctx); err != nil {
		return nil, err
	}
	desk, err := env.openDesk(ctx, us.Namespace())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, desk.close()) }()

	var all []*consumer
	for _, parallel := range []int{1, 8} {
		for _, with := range desk.drivers {
			inbox, err := with.inbox(outbox.InboxConfig{Schema: us.Schema(), Consumer: "benchmark"})
			if err != nil {
				return nil, err
			}
			all = append(all,
				&consumer{driver: with.name, parallel: parallel, inbox: true, handler: inbox.Middleware(desk.handle)},
				&consumer{driver: with.name, parallel: parallel, handler: with.bare})
		}
	}
	if err := consumeAll(ctx, all, env.count(15, 1), env.count(consumerBlock, 20)); err != nil {
		return nil, err
	}
	if err := desk.check(ctx, us.Schema(), all); err != nil {
		return nil, err
	}
	return compareConsumers(all), nil
}

// consumeAll hands each consumer the same number of messages, in alternating order.
func consumeAll(ctx context.Context, all []*consumer, blocks, size int) error {
	var index atomic.Int64
	for block := range blocks + 1 {
		for _, i := range measure.Alternate(len(all), block) {
			c := all[i]
			began := time.Now()
			if err := c.consume(ctx, &index, size); err != nil {
				return fmt.Errorf("%s, inbox %t: %w", c.driver, c.inbox, err)
			}
			c.handled += size
			if block > 0 { // the first warms up
				c.times = append(c.times, time.Since(began)*consumerBlock/time.Duration(size))
			}
		}
	}
	return nil
}

func (c *consumer) consume(ctx context.Context, index *atomic.Int64, size int) error {
	errs := make([]error, c.parallel)
	var left atomic.Int64
	left.Store(int64(size))
	var workers sync.WaitGroup
	for w := range c.parallel {
		workers.Go(func() {
			for left.Add(-1) >= 0 && errs[w] == nil {
				msg := measure.NewMessage(ctx, int(index.Add(1)), measure.Unkeyed, 0, payloadSize)
				_, errs[w] = c.handler(msg)
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

func compareConsumers(all []*consumer) (results []report.Result) {
	for _, us := range all {
		for _, them := range all {
			if us.inbox && !them.inbox && us.driver == them.driver && us.parallel == them.parallel {
				metric := fmt.Sprintf("%d at a time, %s", us.parallel, us.driver)
				results = append(results, report.New("inbox", metric, "messages/s", us.rate(), them.rate(), "a transaction alone"))
			}
		}
	}
	return results
}
