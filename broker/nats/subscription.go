package nats

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	firstStep = 5 * time.Millisecond
	lastStep  = time.Second
	// idleTimeout is how long nothing has to come until the consumer is looked for anew. It is longer than a request for a
	// message lives, so that one of which the server knows no more, after a change of leaders for instance, is made again.
	idleTimeout = time.Minute
)

// subscription takes one message after the other from the group's consumer: the next one when the one before is
// acknowledged.
type subscription struct {
	s      *subscriber
	topic  string
	output chan *message.Message
}

// run takes messages until ctx is done. Should the consumer be gone, by an operator or with the server's disk, it is made
// again.
func (s *subscription) run(ctx context.Context, consumer jetstream.Consumer) {
	for ctx.Err() == nil {
		var err error
		if consumer == nil {
			consumer, err = s.s.consumer(ctx, s.topic)
		}
		if err == nil {
			err = s.receive(ctx, consumer)
			consumer = nil
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		s.s.settings.Logger.Debug("nats: the subscription is made again", s.s.fields(s.topic).Add(map[string]any{"err": err}))
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
		}
	}
}

// receive returns when ctx is done, or with the error that ended it; with nil if nothing came for long.
func (s *subscription) receive(ctx context.Context, consumer jetstream.Consumer) error {
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := s.next(ctx, messages)
		if m == nil {
			return err
		}
		if err != nil {
			s.handBack(m)
			return err
		}
		s.handle(ctx, m)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// next waits for a message. It may give one together with an error: that was just coming when the wait ended, and the group
// would miss it until ack_wait is over.
func (s *subscription) next(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	s.s.asking.RLock()
	defer s.s.asking.RUnlock()
	m, err := patiently(ctx, messages)
	if m != nil || err != nil && ctx.Err() == nil {
		return m, err
	}
	messages.Drain()
	m, _ = messages.Next(jetstream.NextMaxWait(drainTimeout)) // what it has is at most one; otherwise it is closed
	if m != nil && err == nil {
		return m, nil
	}
	return m, err
}

// patiently waits in steps. Each call of Next asks the server for a message, unless the request before is still under way
// by then; in that case it would wait half a minute for what it has not asked for, says nats.go's checkPending.
func patiently(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	step := firstStep
	for waited := time.Duration(0); waited < idleTimeout; waited += step {
		step = min(2*step, lastStep)
		stepCtx, cancel := context.WithTimeout(ctx, step)
		m, err := messages.Next(jetstream.NextContext(stepCtx))
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return m, err
		}
	}
	return nil, nil //nolint:nilnil // nothing came
}

// handBack gives a message back to the group. When the whole subscriber is closed, that has to wait until no subscription
// of it asks for messages: the server would give it to one that is about to leave.
func (s *subscription) handBack(m jetstream.Msg) {
	if s.s.closing.Err() != nil {
		s.s.asking.Lock()
		defer s.s.asking.Unlock()
	}
	s.tell("hand back", m.Nak())
}

// handle gives a message to the user, and the server its fate.
func (s *subscription) handle(ctx context.Context, m jetstream.Msg) {
	msg, err := unmarshal(m)
	if err != nil { // can't be, see there
		s.s.settings.Logger.Error("nats: a message can't be read", err, s.s.fields(s.topic))
		return
	}
	msgCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	msg.SetContext(msgCtx)
	// As long as this process lives, the message is its own, however long it takes.
	alive := time.NewTicker(max(s.s.settings.ackWait/3, time.Millisecond))
	defer alive.Stop()
	output := s.output
	for {
		select {
		case output <- msg:
			output = nil // once
		case <-msg.Acked():
			s.tell("acknowledge", m.Ack())
			return
		case <-msg.Nacked():
			s.tell("nack", m.NakWithDelay(s.s.settings.nackDelay))
			return
		case <-alive.C:
			s.tell("keep", m.InProgress())
		case <-ctx.Done():
			s.handBack(m)
			return
		}
	}
}

// tell logs what the server could not be told: the message comes again after ack_wait.
func (s *subscription) tell(what string, err error) {
	if err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		s.s.settings.Logger.Error("nats: can't "+what+" a message", err, s.s.fields(s.topic))
	}
}
