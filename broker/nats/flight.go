package nats

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// flight is the messages of a batch that are on their way together.
type flight struct {
	p        *publisher
	link     *link
	batch    []outbox.Outgoing
	verdicts []error
	sent     []sent
	watchers map[string]*watcher // by topic
	forget   []func()
}

type sent struct {
	i      int // in the batch
	future jetstream.PubAckFuture
}

// send sends them, without waiting for answers.
func (f *flight) send(ctx context.Context, wave []int) {
	f.watchers = map[string]*watcher{}
	var silent error // JetStream does not answer: it is not asked for each topic of the batch
	for _, i := range wave {
		if silent != nil {
			f.verdicts[i] = silent
			continue
		}
		out := f.batch[i]
		m, err := f.p.message(ctx, f.link, out.Topic, out.Message)
		if err != nil {
			f.verdicts[i] = err
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				silent = err
			}
			continue
		}
		f.watch(out.Topic)
		future, err := f.link.PublishMsgAsync(m, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(stallTimeout))
		if err != nil {
			f.verdicts[i] = f.p.verdict(out.Topic, err)
			continue
		}
		f.sent = append(f.sent, sent{i, future})
	}
}

func (f *flight) watch(topic string) {
	if f.watchers[topic] == nil {
		var forget func()
		f.watchers[topic], forget = f.p.denials.watch(topic)
		f.forget = append(f.forget, forget)
	}
}

// wait waits for the answers; those that are there when ctx ends still count.
func (f *flight) wait(ctx context.Context) {
	for _, s := range f.sent {
		topic := f.batch[s.i].Topic
		err, ok := answer(s.future)
		if !ok {
			select {
			case <-s.future.Ok():
			case err = <-s.future.Err():
			case <-f.watchers[topic].denied:
				err = f.watchers[topic].err
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		f.verdicts[s.i] = f.p.verdict(topic, err)
	}
}

// answer gives the one that is there already.
func answer(future jetstream.PubAckFuture) (err error, ok bool) { //nolint:revive // as a map does
	select {
	case <-future.Ok():
		return nil, true
	case err := <-future.Err():
		return err, true
	default:
		return nil, false
	}
}

func (f *flight) end() {
	for _, forget := range f.forget {
		forget()
	}
}
