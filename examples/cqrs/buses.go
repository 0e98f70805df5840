package main

import (
	"errors"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

var marshaler = cqrs.JSONMarshaler{GenerateName: cqrs.StructName}

func commandTopic(name string) string { return "hotel.commands." + name }
func eventTopic(name string) string   { return "hotel.events." + name }

// buses are made once and serve all transactions: each transaction carries itself in the context. Without one, Send and
// Publish return outbox.ErrNoTransaction.
type buses struct {
	commands *cqrs.CommandBus
	events   *cqrs.EventBus
}

func newBuses() (*buses, error) {
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	if err != nil {
		return nil, err
	}
	commands, commandsErr := cqrs.NewCommandBusWithConfig(publisher, cqrs.CommandBusConfig{
		GeneratePublishTopic: func(params cqrs.CommandBusGeneratePublishTopicParams) (string, error) {
			return commandTopic(params.CommandName), nil
		},
		OnSend:    func(params cqrs.CommandBusOnSendParams) error { setKey(params.Message, params.Command); return nil },
		Marshaler: marshaler,
	})
	events, eventsErr := cqrs.NewEventBusWithConfig(publisher, cqrs.EventBusConfig{
		GeneratePublishTopic: func(params cqrs.GenerateEventPublishTopicParams) (string, error) {
			return eventTopic(params.EventName), nil
		},
		OnPublish: func(params cqrs.OnEventSendParams) error { setKey(params.Message, params.Event); return nil },
		Marshaler: marshaler,
	})
	return &buses{commands, events}, errors.Join(commandsErr, eventsErr)
}

// setKey keeps commands and events of one key in order.
func setKey(msg *message.Message, event any) {
	if keyed, ok := event.(interface{ Key() string }); ok {
		outbox.SetKey(msg, keyed.Key())
	}
}
