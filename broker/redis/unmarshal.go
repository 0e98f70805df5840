package redis

import (
	"fmt"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

// idField is where an entry's id is put for Unmarshal, which is given the fields only. No field of a stream's entry that
// Watermill writes has this name.
const idField = "\x00id"

func withIDs(streams []redis.XStream) {
	for _, stream := range streams {
		withID(stream.Messages)
	}
}

func withID(messages []redis.XMessage) {
	for i := range messages {
		if messages[i].Values == nil { // deleted while it was pending
			messages[i].Values = map[string]any{}
		}
		messages[i].Values[idField] = messages[i].ID
	}
}

// Unmarshal reads what watermill-redisstream writes, and anything else too: an entry that can't be read would end the
// subscription, and come first again after its restart. It is called for one message after the other, each when the one
// before it was acknowledged.
func (s *session) Unmarshal(values map[string]any) (*message.Message, error) {
	s.mu.Lock()
	s.id, _ = values[idField].(string)
	s.mu.Unlock()
	delete(values, idField)
	msg, err := redisstream.DefaultMarshallerUnmarshaller{}.Unmarshal(values)
	if err == nil {
		return msg, nil
	}
	payload, _ := values["payload"].(string)
	msg = message.NewMessage("", []byte(payload))
	for name, value := range values {
		if name != "payload" {
			msg.Metadata.Set(name, fmt.Sprint(value))
		}
	}
	return msg, nil
}

// current is the id of the message that Unmarshal read last.
func (s *session) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}
