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
	failed   map[string]int // by key: which message was the first to fail
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
func (f *flight) wave(ctx context.Context, indices []int) (wave, rest []int) {
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
		if f.records[i], err = f.p.sized(ctx, out.Topic, out.Key, out.Message); err != nil {
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
	first, failed := f.failed[f.batch[i].Key]
	if !failed || i <= first {
		return false
	}
	f.verdicts[i] = outbox.ErrHeldBack
	return true
}

func (f *flight) fail(i int, err error) {
	f.verdicts[i] = err
	if key := f.batch[i].Key; key != "" {
		if first, failed := f.failed[key]; !failed || i < first {
			f.failed[key] = i
		}
	}
}

// send sends a wave, in parts that each topic can take as one batch: franz-go makes batches of what it is given at once, and
// knows no limits of topics.
func (f *flight) send(ctx context.Context, wave []int) {
	for len(wave) > 0 {
		var part []int
		part, wave = f.part(wave)
		f.flush(ctx, part)
	}
}

// part cuts off what goes together, and leaves out what has to wait by now.
func (f *flight) part(wave []int) (part, rest []int) {
	bytes := map[string]int{}
	for n, i := range wave {
		if f.hold(i) {
			continue
		}
		topic, add := f.batch[i].Topic, size(f.records[i])
		limit, _, _ := f.p.topics.limit(topic)
		if bytes[topic] > 0 && bytes[topic]+add > limit {
			return part, wave[n:]
		}
		bytes[topic] += add
		part = append(part, i)
	}
	return part, nil
}

// flush sends records together. What the broker refused was refused with all that was in one batch with it, and behind it:
// sent again one by one, each gets a verdict of its own.
func (f *flight) flush(ctx context.Context, part []int) {
	if len(part) == 0 {
		return
	}
	records := make([]*kgo.Record, len(part))
	for n, i := range part {
		records[n] = f.records[i]
	}
	errs := f.p.batches.flush(ctx, records)
	for n, i := range part {
		err := errs[n]
		if refused(err) {
			f.p.topics.forget(f.batch[i].Topic)
			if f.hold(i) {
				continue
			}
			err = f.p.batches.flush(ctx, []*kgo.Record{clone(records[n])})[0]
		}
		if err != nil {
			f.fail(i, err)
		}
	}
}
