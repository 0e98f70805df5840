package amqp

import (
	"fmt"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/rabbitmq/amqp091-go"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const (
	// maxShort is what AMQP's short strings hold: names of exchanges, queues and headers. The client cuts longer ones off.
	maxShort = 255
	// headerRest is what a frame with a message's headers holds besides their names and values, generously.
	headerRest = 64
	// perHeader is what a header takes besides its name and value.
	perHeader = 6
)

// marshal gives a message as watermill-amqp writes it, or a permanent error if AMQP has no form for it.
func marshal(out *outbox.Outgoing, frameSize int) (amqp091.Publishing, error) {
	refuse := func(format string, args ...any) (amqp091.Publishing, error) {
		return amqp091.Publishing{}, outbox.Permanent(fmt.Errorf("amqp: publishing to %.64q: "+format, append([]any{out.Topic}, args...)...))
	}
	if len(out.Topic) > maxShort {
		return refuse("a topic must have at most %d bytes", maxShort)
	}
	if _, taken := out.Message.Metadata[wamqp.DefaultMessageUUIDHeaderKey]; taken {
		return refuse("metadata %s is where the UUID goes", wamqp.DefaultMessageUUIDHeaderKey)
	}
	for _, name := range []string{"CC", "BCC"} {
		if _, taken := out.Message.Metadata[name]; taken {
			return refuse("metadata %s is RabbitMQ's own, for more routing keys; use another name", name)
		}
	}
	publishing, err := wamqp.DefaultMarshaler{}.Marshal(out.Message)
	if err != nil {
		return refuse("%w", err)
	}
	size := headerRest
	for name, value := range publishing.Headers {
		if len(name) > maxShort {
			return refuse("the name of a metadata entry must have at most %d bytes", maxShort)
		}
		size += len(name) + len(value.(string)) + perHeader //nolint:forcetypeassert // Watermill's metadata are strings
	}
	if frameSize > 0 && size > frameSize {
		return refuse("metadata must have less than %d bytes, the server's frame_max", frameSize)
	}
	return publishing, nil
}

// unmarshal reads what watermill-amqp writes, and anything else too.
func unmarshal(d *amqp091.Delivery) *message.Message {
	uuid, ok := d.Headers[wamqp.DefaultMessageUUIDHeaderKey].(string)
	if !ok {
		uuid = d.MessageId
	}
	msg := message.NewMessage(uuid, d.Body)
	for name, value := range d.Headers {
		if name == wamqp.DefaultMessageUUIDHeaderKey && ok {
			continue
		}
		if text, isText := value.(string); isText {
			msg.Metadata.Set(name, text)
		} else {
			msg.Metadata.Set(name, fmt.Sprint(value))
		}
	}
	return msg
}
