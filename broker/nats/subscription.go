package nats

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
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

// receive returns when ctx is done, or with the error that ended it.
func (s *subscription) receive(ctx context.Context, consumer jetstream.Consumer) error {
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return err
	}
	defer s.drain(messages)
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		s.handle(ctx, m)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// drain ends it, and hands back the message that was just coming: the group would miss it until ack_wait is over.
func (s *subscription) drain(messages jetstream.MessagesContext) {
	messages.Drain()
	for {
		m, err := messages.Next(jetstream.NextMaxWait(drainTimeout))
		if err != nil {
			messages.Stop()
			return
		}
		s.tell("hand back", m.Nak())
	}
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
			s.tell("hand back", m.Nak())
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
