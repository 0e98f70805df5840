package main

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/all"
)

// runForward takes the outbox to the broker until ctx is done: then what is in flight ends, and is settled. Start as many
// as you like. Decorators are for the demonstration.
func runForward(ctx context.Context, s settings, decorators ...func(message.Publisher) message.Publisher) (err error) {
	pool, err := s.openPool(ctx, "forward")
	if err != nil {
		return err
	}
	defer pool.Close()
	b, err := all.Open(ctx, s.brokerURL, broker.Options{Logger: watermill.NewSlogLogger(s.logger)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	publisher := b.Publisher()
	for _, decorate := range decorators {
		publisher = decorate(publisher)
	}
	forwarder, err := outbox.NewForwarder(pool, publisher, outbox.ForwarderConfig{Classify: b.Classify}, watermill.NewSlogLogger(s.logger))
	if err != nil {
		return err
	}
	return forwarder.Run(ctx)
}
