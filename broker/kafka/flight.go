package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// flight is a batch on its way.
type flight struct {
	p        *publisher
	batch    []outbox.Outgoing
	records  []*kgo.Record
	verdicts []error
	failed   map[string]bool // keys
}

// topics gives those of the batch, each once.
func (f *flight) topics() (names []string) {
	seen := map[string]bool{}
	for i := range f.batch {
		if name := f.batch[i].Topic; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// wave gives what may be in flight together, and the rest. A key's messages may while they go to one topic, for then they
// are on one partition; those behind a change of its topic wait for the next wave. A message that can't be sent is the end
// of its key.
func (f *flight) wave(indices []int) (wave, rest []int) {
	topicOf := map[string]string{}
	waits := map[string]bool{}
	for _, i := range indices {
		out := &f.batch[i]
		topic, seen := topicOf[out.Key]
		if f.hold(i) {
			continue
		}
		if out.Key != "" && (waits[out.Key] || seen && topic != out.Topic) {
			waits[out.Key] = true
			rest = append(rest, i)
			continue
		}
		var err error
		if f.records[i], err = f.p.record(out.Topic, out.Key, out.Message); err != nil {
			f.fail(i, err)
			continue
		}
		topicOf[out.Key] = out.Topic
		wave = append(wave, i)
	}
	return wave, rest
}

// hold says whether an earlier message of the key failed, and gives the verdict then.
func (f *flight) hold(i int) bool {
	held := f.failed[f.batch[i].Key]
	if held {
		f.verdicts[i] = outbox.ErrHeldBack
	}
	return held
}

func (f *flight) fail(i int, err error) {
	f.verdicts[i] = err
	if key := f.batch[i].Key; key != "" {
		f.failed[key] = true
	}
}

// send sends a wave. What the broker refused was refused with all that was in one batch with it, and behind it: sent again
// one by one, each gets a verdict of its own.
func (f *flight) send(ctx context.Context, wave []int) {
	if len(wave) == 0 {
		return
	}
	records := make([]*kgo.Record, len(wave))
	for n, i := range wave {
		records[n] = f.records[i]
	}
	errs := f.p.batches.flush(ctx, records)
	suspects := 0
	for _, err := range errs {
		if refused(err) {
			suspects++
		}
	}
	for n, i := range wave {
		err := errs[n]
		if refused(err) {
			f.p.topics.forget(f.batch[i].Topic)
			if suspects > 1 {
				if f.hold(i) {
					continue
				}
				err = f.p.batches.flush(ctx, []*kgo.Record{clone(records[n])})[0]
			}
		}
		if err != nil {
			f.fail(i, err)
		}
	}
}
