package outbox

import (
	"context"
	"errors"
	"slices"

	"github.com/ThreeDotsLabs/watermill"
)

var errVerdicts = errors.New("outbox: the publisher's PublishBatch returned another number of verdicts than it was given messages")

// cursor is where the next batch of a delivery begins.
type cursor struct{ group, row int }

// batchRunner works through a delivery's groups, a batch at a time.
type batchRunner struct {
	*delivery
	writtenOff bool // its batch outlived the timeout; another runner has its place
}

func (r *batchRunner) run() {
	returned := false
	defer func() {
		switch {
		case r.writtenOff:
		case returned:
			r.slotEnded()
		default: // runtime.Goexit ended this goroutine: another one goes on in its place
			r.start(1)
		}
	}()
	for !r.writtenOff {
		rows := r.take()
		if len(rows) == 0 {
			break
		}
		r.publish(rows)
	}
	returned = true
}

// take gives the rows of the next batch: whole groups while there is room. What is cut off a group goes into the next one
// only if all before it was acknowledged.
func (r *batchRunner) take() (rows []int) {
	quiet := r.f.evidence.quiet()
	at := &r.nextBatch
	if at.row > 0 && r.state[r.groups[at.group][at.row-1]].Load() != publishAcked {
		*at = cursor{group: at.group + 1}
	}
	for at.group < len(r.groups) && len(rows) < r.f.config.BatchSize {
		group := r.groups[at.group]
		if at.row == len(group) || !quiet && !r.f.evidence.mayTry(r.rows[group[at.row]].ID) {
			*at = cursor{group: at.group + 1}
			continue
		}
		if len(rows) > 0 && r.f.limiter != nil && !r.f.limiter.Allow() || len(rows) == 0 && !r.mayBegin() {
			break
		}
		rows = append(rows, group[at.row])
		at.row++
	}
	return rows
}

// publish publishes a batch. A panic, or the end of the goroutine, is a failure of each of its messages.
func (r *batchRunner) publish(rows []int) {
	batch, sent := r.compose(rows)
	if len(batch) == 0 {
		return
	}
	verdicts, failure := []error(nil), errGoexit
	defer func() {
		if p := recover(); p != nil {
			failure = r.f.panicked(p, watermill.LogFields{"messages": len(batch)})
		}
		r.judge(batch, sent, verdicts, failure)
	}()
	ctx, cancel := context.WithTimeout(r.ctx, r.f.config.PublishTimeout)
	defer cancel()
	verdicts, failure = r.f.batches.PublishBatch(ctx, batch), nil
	if len(verdicts) != len(batch) {
		failure = errVerdicts
	}
}

// compose makes messages of rows. One that can't be made fails, and is the end of its key in this batch.
func (r *batchRunner) compose(rows []int) (batch []Outgoing, sent []int) {
	batch, sent = make([]Outgoing, 0, len(rows)), make([]int, 0, len(rows))
	broken, now := map[string]bool{}, r.f.evidence.now()
	for _, i := range rows {
		row := &r.rows[i]
		if broken[row.Key] {
			continue
		}
		r.started(i, now)
		msg, err := forwardedMessage(row)
		if err != nil {
			r.end(i, err)
			broken[row.Key] = row.Key != ""
			continue
		}
		msg.SetContext(r.contexts[row.Topic])
		batch, sent = append(batch, Outgoing{Topic: row.Topic, Key: row.Key, Message: msg}), append(sent, i)
	}
	return batch, sent
}

// judge notes the verdicts. A message counts as held back only behind a failed one: else nobody would ever look at it.
func (r *batchRunner) judge(batch []Outgoing, sent []int, verdicts []error, failure error) {
	failed := map[string]bool{}
	r.batchLives.Store(failure == nil && slices.Contains(verdicts, nil))
	defer r.batchLives.Store(false) // it says nothing of the next one
	for n, i := range sent {
		err := failure
		if err == nil {
			err = verdicts[n]
		}
		var owned bool
		if key := batch[n].Key; errors.Is(err, ErrHeldBack) && failed[key] {
			owned = r.state[i].CompareAndSwap(publishStarted, publishPending)
		} else {
			owned = r.end(i, err)
			failed[key] = failed[key] || err != nil && key != ""
		}
		r.writtenOff = r.writtenOff || !owned
	}
	if r.writtenOff {
		r.f.abandoned.Add(-1)
	}
}
