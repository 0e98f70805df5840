package kafka

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"strings"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// maxTopicName is Kafka's; like the characters, from Topic.validate of its sources.
const maxTopicName = 249

// checkTopic is called for each message, which is why it does without a regular expression: that took a tenth of the time.
func checkTopic(name string) error {
	foreign := strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	})
	if foreign || name == "" || len(name) > maxTopicName || name == "." || name == ".." {
		return outbox.Permanent(fmt.Errorf("kafka: topic %.260q: it must be 1 to 249 letters, digits, dots, underscores and hyphens", name))
	}
	return nil
}

// record makes of a message what watermill-kafka's DefaultMarshaler would, and gives it its key.
func record(topic, key string, msg *message.Message) (*kgo.Record, error) {
	if _, ok := msg.Metadata[kafka.UUIDHeaderKey]; ok {
		return nil, outbox.Permanent(fmt.Errorf("kafka: metadata %q: the name is Watermill's own, for the UUID; use another", kafka.UUIDHeaderKey))
	}
	r := &kgo.Record{Topic: topic, Value: msg.Payload, Headers: make([]kgo.RecordHeader, 1, len(msg.Metadata)+1)}
	if key != "" {
		r.Key = []byte(key)
	}
	r.Headers[0] = kgo.RecordHeader{Key: kafka.UUIDHeaderKey, Value: []byte(msg.UUID)}
	for name, value := range msg.Metadata {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return r, nil
}

// batchOverhead is the size of a batch around its records: the header of format 2, and what franz-go counts in.
const batchOverhead = 61 + 4

// size gives the bytes of a batch of that one record, before compression: what is held against max.message.bytes.
// See "Record" of Kafka's protocol guide, message format 2.
func size(r *kgo.Record) int {
	n := 1 + 1 + 1 + bytesLen(len(r.Key)) + bytesLen(len(r.Value)) + varintLen(len(r.Headers))
	for _, h := range r.Headers {
		n += bytesLen(len(h.Key)) + bytesLen(len(h.Value))
	}
	return batchOverhead + varintLen(n) + n
}

func bytesLen(n int) int { return varintLen(n) + n }

// varintLen is the length of a zigzag varint.
func varintLen(n int) int { return (bits.Len64(uint64(n)<<1|1) + 6) / 7 } //nolint:gosec // a length

// fnv32a is the hash of sarama's partitioner.
func fnv32a(b []byte) uint32 {
	h := fnv.New32a()
	_, _ = h.Write(b)
	return h.Sum32()
}
