package outbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

const (
	defaultMaxPayloadBytes  = 64 << 20
	defaultPublisherTimeout = 10 * time.Second
	// payloadCeiling is what every driver can send in every mode. PostgreSQL takes a gigabyte a field, but in the simple
	// protocol bytes travel as a literal of twice their length, and half a gigabyte is the longest one that it parses.
	payloadCeiling = 255 << 20
)

// PublisherConfig configures a Publisher. The zero value is right for most.
type PublisherConfig struct {
	// Schema names the tables. Defaults to public.outbox.
	Schema Schema

	// Key gives a message's ordering key: messages with the same key are forwarded in the order in which they were
	// published, and one that fails holds back the later ones of its key. "" asks for no order. An error refuses the
	// call. Set it to derive the key from the topic or the payload; defaults to what SetKey has set.
	Key func(topic string, msg *message.Message) (string, error)

	// Check refuses messages that must not enter the outbox, because no consumer could read them or the broker would
	// not take them: its error refuses the call while the caller can still react. Defaults to none.
	Check func(topic string, msg *message.Message) error

	// MaxPayloadBytes is the largest payload that is taken. Set it to your broker's limit: a larger message would
	// only get as far as the dead letters. Defaults to 64 MiB; -1 means 255 MiB, the most that PostgreSQL
	// can be given by every driver in every mode.
	MaxPayloadBytes int

	// Timeout bounds a Publish whose message's context was already done, as that of a message is after Watermill's
	// Timeout middleware has returned. It counts from the call. Other calls end with the message's context, and a
	// context without a deadline sets none. Defaults to 10 s; -1 means none.
	Timeout time.Duration
}

// Validate reports everything wrong with the configuration, each problem with its field. NewPublisher calls it.
func (c PublisherConfig) Validate() error {
	problems := []error{c.Schema.Validate(), validateMaxPayload("PublisherConfig", c.MaxPayloadBytes)}
	if c.Timeout < -1 {
		problems = append(problems, fmt.Errorf("outbox: PublisherConfig.Timeout: %v is negative; 0 is the default, -1 none", c.Timeout))
	}
	return errors.Join(problems...)
}

func validateMaxPayload(config string, limit int) error {
	if limit >= -1 && limit <= payloadCeiling {
		return nil
	}
	return fmt.Errorf("outbox: %s.MaxPayloadBytes: %d is not between 1 and %d, nor 0 for the default, nor -1 for the most possible",
		config, limit, payloadCeiling)
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	c.Schema = c.Schema.withDefaults()
	if c.Key == nil {
		c.Key = func(_ string, msg *message.Message) (string, error) { return Key(msg), nil }
	}
	switch c.MaxPayloadBytes {
	case 0:
		c.MaxPayloadBytes = defaultMaxPayloadBytes
	case -1:
		c.MaxPayloadBytes = payloadCeiling
	}
	if c.Timeout == 0 {
		c.Timeout = defaultPublisherTimeout
	}
	return c
}
