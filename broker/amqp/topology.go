package amqp

import (
	"errors"
	"fmt"

	"github.com/rabbitmq/amqp091-go"
)

// topicError is what the server has against a topic.
type topicError struct {
	topic string
	err   error
}

func (e *topicError) Error() string {
	return fmt.Sprintf("amqp: topic %q: %v", e.topic, e.err)
}
func (e *topicError) Unwrap() error { return e.err }

// prepare makes a topic's exchange, and the queues of the groups in the URL, once a connection.
func (s *settings) prepare(l *live, topic string) error {
	l.mu.Lock()
	done := l.topics[topic]
	l.mu.Unlock()
	if done {
		return nil
	}
	if err := s.exchange(l, topic); err != nil {
		return err
	}
	for _, group := range s.groups {
		if err := s.queue(l, topic, group); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.topics[topic] = true
	l.mu.Unlock()
	return nil
}

// forget lets prepare look at a topic again.
func (l *live) forget(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.topics, topic)
}

// exchange makes a topic's exchange. One that is there is used as it is.
func (s *settings) exchange(l *live, topic string) error {
	return declare(l, topic,
		func(c *amqp091.Channel) error {
			return c.ExchangeDeclare(topic, "fanout", true, false, false, false, nil)
		},
		func(c *amqp091.Channel) error {
			return c.ExchangeDeclarePassive(topic, "fanout", true, false, false, false, nil)
		})
}

// queue makes a group's queue for a topic, and binds it. One that is there, and that may not be bound, is taken for bound.
func (s *settings) queue(l *live, topic, group string) error {
	name := queueName(topic, group)
	args := amqp091.Table{}
	if s.queueType != "" {
		args[amqp091.QueueTypeArg] = s.queueType
	}
	if s.single {
		args[amqp091.SingleActiveConsumerArg] = true
	}
	passive := func(c *amqp091.Channel) error {
		_, err := c.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	}
	err := declare(l, topic, func(c *amqp091.Channel) error {
		_, err := c.QueueDeclare(name, true, false, false, false, args)
		return err
	}, passive)
	if err != nil {
		return err
	}
	return declare(l, topic, func(c *amqp091.Channel) error { return c.QueueBind(name, "", topic, false, nil) }, passive)
}

func queueName(topic, group string) string { return topic + "_" + group }

// declare does something on a channel of its own, since a refusal closes it. If the server does not let us, because we may not
// or because there is something else by the name, what is there will do.
func declare(l *live, topic string, want, have func(*amqp091.Channel) error) error {
	err := onChannel(l, want)
	var refused *amqp091.Error
	if errors.As(err, &refused) && (refused.Code == amqp091.AccessRefused || refused.Code == amqp091.PreconditionFailed) {
		if onChannel(l, have) == nil {
			return nil
		}
	}
	if err != nil {
		return &topicError{topic, err}
	}
	return nil
}

func onChannel(l *live, do func(*amqp091.Channel) error) error {
	c, err := l.Channel()
	if err != nil {
		return err
	}
	if err := do(c); err != nil {
		return err
	}
	return c.Close()
}
