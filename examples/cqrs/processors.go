package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// serve handles commands and events until ctx is done.
func serve(ctx context.Context, db *sql.DB, hotel *hotel) (err error) {
	inbox, err := outbox.NewInbox(db, outbox.InboxConfig{
		Consumer:    "hotel",
		OnDuplicate: func(*message.Message) { hotel.faults.copies.Add(1) },
	}, nil)
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, nil)
	if err != nil {
		return err
	}
	// Outermost first: each try is a transaction of its own, and the inbox goes last. One inbox serves all handlers.
	retry := middleware.Retry{MaxRetries: 5, InitialInterval: 20 * time.Millisecond, ResetContextOnRetry: true}
	router.AddMiddleware(retry.Middleware, middleware.Timeout(time.Minute), middleware.Recoverer, inbox.Middleware)

	// Each handler is a consumer group of its own, so that each gets every event.
	var opened []broker.Broker
	defer func() {
		for _, b := range opened {
			err = errors.Join(err, b.Close())
		}
	}()
	subscribe := func(handler string) (message.Subscriber, error) {
		b, err := openBroker(ctx, handler)
		if err != nil {
			return nil, err
		}
		opened = append(opened, b)
		return b.Subscriber()
	}
	if err := errors.Join(addCommands(router, hotel, subscribe), addEvents(router, hotel, subscribe)); err != nil {
		return err
	}
	return router.Run(ctx)
}

func addCommands(router *message.Router, hotel *hotel, subscribe func(handler string) (message.Subscriber, error)) error {
	processor, err := cqrs.NewCommandProcessorWithConfig(router, cqrs.CommandProcessorConfig{
		GenerateSubscribeTopic: func(params cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) {
			return commandTopic(params.CommandName), nil
		},
		SubscriberConstructor: func(params cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return subscribe(params.HandlerName)
		},
		Marshaler: marshaler,
		// With AckCommandHandlingErrors, a command whose handler fails would be lost.
	})
	if err != nil {
		return err
	}
	return processor.AddHandlers(
		cqrs.NewCommandHandler("hotel-book-room", hotel.bookRoom),
		cqrs.NewCommandHandler("hotel-order-beer", hotel.orderBeer),
	)
}

func addEvents(router *message.Router, hotel *hotel, subscribe func(handler string) (message.Subscriber, error)) error {
	processor, err := cqrs.NewEventProcessorWithConfig(router, cqrs.EventProcessorConfig{
		GenerateSubscribeTopic: func(params cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) {
			return eventTopic(params.EventName), nil
		},
		SubscriberConstructor: func(params cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return subscribe(params.HandlerName)
		},
		Marshaler: marshaler,
	})
	if err != nil {
		return err
	}
	return processor.AddHandlers(
		cqrs.NewEventHandler("hotel-welcome", hotel.welcome),
		cqrs.NewEventHandler("hotel-report", hotel.report),
	)
}
