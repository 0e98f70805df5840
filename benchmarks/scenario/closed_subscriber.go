package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

const closedBatch = 100 // both sides' default

var closedSubscriber = Scenario{
	Name: "closed-subscriber",
	About: "A subscriber on the table itself is closed in the middle of a batch of 100, 200 times: its consumer has acked some, the " +
		"same number on both sides, and the subscriber is closed with the next one in the consumer's hand, or right after the " +
		"last ack. Then one drains what is left. Counted are messages that are gone and were never acked, and acked ones that " +
		"came again. Both are watermill-sql v4's Subscriber: ours with our adapters, the rival with its own for queues. " +
		"A ratio is null where the rival has none.",
	Run: runClosedSubscriber,
}

func runClosedSubscriber(ctx context.Context, env *Env) ([]report.Result, error) {
	stops := env.count(200, 5)
	us, err := relay.NewOursSubscribed(relay.Fresh(env.Pool))
	if err != nil {
		return nil, err
	}
	rival := relay.NewStockSubscribed(relay.Fresh(env.Pool))
	var tallies []measure.Tally
	for _, side := range []relay.Subscribed{us, rival} {
		tally, err := env.closeOften(ctx, side, stops)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", side.Name(), err)
		}
		env.Progress("%s, closed %d times: %d of %d messages lost, %d acked ones came again",
			side.Name(), stops, tally.Lost, stops*closedBatch, tally.Duplicates)
		tallies = append(tallies, tally)
	}
	if lost := tallies[0].Lost; lost != 0 {
		return nil, fmt.Errorf("%s lost %d messages", us.Name(), lost)
	}
	result := func(metric, unit string, of func(measure.Tally) float64) report.Result {
		return report.New("closed-subscriber", metric, unit, of(tallies[0]), of(tallies[1]), rival.Name())
	}
	return []report.Result{
		result("lost", "messages", func(t measure.Tally) float64 { return float64(t.Lost) }),
		result("lost", "messages a stop", func(t measure.Tally) float64 { return float64(t.Lost) / float64(stops) }),
		result("acked, and came again", "messages", func(t measure.Tally) float64 { return float64(t.Duplicates) }),
	}, nil
}

// closeOften writes a batch for each stop, so that none finds less, and gives what became of the messages.
func (e *Env) closeOften(ctx context.Context, side relay.Subscribed, stops int) (tally measure.Tally, err error) {
	defer drop(ctx, side, &err)
	load := measure.Load{Count: stops * closedBatch, Size: payloadSize}
	if err := e.prepare(ctx, side, load); err != nil {
		return tally, err
	}
	ledger := measure.NewLedger(load.Count, 0)
	random := rand.New(rand.NewPCG(1, 2)) // the same on both sides
	for stop := range stops {
		if err := subscribe(ctx, side, func(messages <-chan *message.Message) error {
			if err := ackSome(ctx, messages, ledger, random.IntN(closedBatch)); err != nil {
				return err
			}
			if stop%2 == 0 {
				return nil
			}
			_, err := receive(ctx, messages)
			return err
		}); err != nil {
			return tally, err
		}
	}
	left, err := side.Pending(ctx)
	if err != nil {
		return tally, err
	}
	err = subscribe(ctx, side, func(messages <-chan *message.Message) error {
		return errors.Join(ackSome(ctx, messages, ledger, int(left)), e.settled(ctx, side))
	})
	if err != nil {
		return tally, err
	}
	tally = ledger.Seen().Compare(load.Expected(ctx))
	if tally.Foreign != 0 || tally.Lost == 0 && !tally.SameContent {
		return tally, errors.New("the messages that came are not those that were written")
	}
	return tally, nil
}

// subscribe lets consume have a subscriber, and closes it.
func subscribe(ctx context.Context, side relay.Subscribed, consume func(<-chan *message.Message) error) error {
	subscriber, err := side.Subscriber(closedBatch)
	if err != nil {
		return err
	}
	messages, err := subscriber.Subscribe(ctx, measure.Topic)
	if err == nil {
		err = consume(messages)
	}
	return errors.Join(err, subscriber.Close())
}

func ackSome(ctx context.Context, messages <-chan *message.Message, ledger *measure.Ledger, count int) error {
	for range count {
		msg, err := receive(ctx, messages)
		if err != nil {
			return err
		}
		ledger.Record(msg)
		msg.Ack()
	}
	return nil
}

func receive(ctx context.Context, messages <-chan *message.Message) (*message.Message, error) {
	select {
	case msg, open := <-messages:
		if !open {
			return nil, errors.New("the subscription has ended")
		}
		return msg, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(settleTime):
		return nil, errors.New("no message comes")
	}
}
