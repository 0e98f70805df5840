package outbox

import "github.com/ThreeDotsLabs/watermill/message"

// KeyMetadata is the metadata entry that carries a message's ordering key. A forwarded message has it whenever its key
// is not empty, so that a broker's partitioning can read it.
const KeyMetadata = "outbox_key"

// SetKey sets the message's ordering key: messages with the same key are forwarded in the order in which they were
// published. An empty key asks for no order, and removes an earlier one.
func SetKey(msg *message.Message, key string) {
	if key == "" {
		delete(msg.Metadata, KeyMetadata)
		return
	}
	if msg.Metadata == nil {
		msg.Metadata = make(message.Metadata)
	}
	msg.Metadata.Set(KeyMetadata, key)
}

// Key gives the message's ordering key, "" when it has none.
func Key(msg *message.Message) string { return msg.Metadata.Get(KeyMetadata) }
