package outbox

import (
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
)

const (
	// maxIndexedBytes bounds what stands in an index: a b-tree takes no more than 2,704 bytes an entry, and a key that
	// is too long would only be noticed when its message fails.
	maxIndexedBytes  = 2048
	maxUUIDBytes     = 1 << 20
	maxMetadataBytes = 16 << 20 // as JSON; a gigabyte of it would be PostgreSQL's own limit, with all the rest
	rowBytes         = 64       // what a row adds to a statement beside its texts and its payload
)

// prepare checks all messages before any SQL, since a statement that fails takes the caller's transaction with it.
// The configuration has its defaults. A Key or Check that panics is the caller's to see.
func (c PublisherConfig) prepare(topic string, messages []*message.Message) ([]row, error) {
	rows := make([]row, len(messages))
	topicReason := indexedProblem(topic)
	if topic == "" {
		topicReason = "is empty; name the topic to forward to"
	}
	for i, msg := range messages {
		if msg == nil {
			return nil, &MessageError{Index: i, Field: "message", Reason: "is nil; leave it out"}
		}
		if topicReason != "" {
			return nil, &MessageError{Index: i, UUID: msg.UUID, Field: "topic", Reason: topicReason}
		}
		if msg.UUID == "" {
			msg.UUID = watermill.NewUUID()
		}
		var problem *MessageError
		if rows[i], problem = c.prepareOne(topic, msg); problem != nil {
			problem.Index, problem.UUID = i, msg.UUID
			return nil, problem
		}
	}
	return rows, nil
}

// prepareOne calls Key and Check first: they may still change the message.
func (c PublisherConfig) prepareOne(topic string, msg *message.Message) (row, *MessageError) {
	var r row
	var err error
	if r.key, err = c.Key(topic, msg); err != nil {
		return r, &MessageError{Field: "key", Reason: "Key found none", Err: err}
	}
	if c.Check != nil {
		if err := c.Check(topic, msg); err != nil {
			return r, &MessageError{Field: "check", Reason: "refused by Check", Err: err}
		}
	}
	if reason := indexedProblem(r.key); reason != "" {
		return r, &MessageError{Field: "key", Reason: reason}
	}
	if reason := sizedProblem(msg.UUID, maxUUIDBytes); reason != "" {
		return r, &MessageError{Field: "uuid", Reason: reason}
	}
	if len(msg.Payload) > c.MaxPayloadBytes {
		return r, &MessageError{Field: "payload", Reason: fmt.Sprintf(
			"has %d bytes, MaxPayloadBytes allows %d; store it elsewhere and send where, or raise the limit",
			len(msg.Payload), c.MaxPayloadBytes)}
	}
	metadataBytes, problem := checkMetadata(msg.Metadata)
	if problem != nil {
		return r, problem
	}
	r.size = len(msg.Payload) + metadataBytes + len(msg.UUID) + len(r.key) + rowBytes
	r.delay, r.until, problem = delayOf(msg.Metadata)
	return r, problem
}

func indexedProblem(s string) string { return sizedProblem(s, maxIndexedBytes) }

func sizedProblem(s string, limit int) string {
	if len(s) > limit {
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), limit)
	}
	return textProblem(s)
}

func checkMetadata(metadata message.Metadata) (size int, problem *MessageError) {
	if size = jsonSize(metadata); size > maxMetadataBytes {
		return size, &MessageError{Field: "metadata", Reason: fmt.Sprintf("has %d bytes as JSON, at most %d are allowed; put it into the payload",
			size, maxMetadataBytes)}
	}
	for name, value := range metadata {
		if reason := textProblem(name); reason != "" {
			return size, &MessageError{Field: metadataField(name), Reason: "the name " + reason}
		}
		if reason := textProblem(value); reason != "" {
			return size, &MessageError{Field: metadataField(name), Reason: "the value " + reason}
		}
	}
	return size, nil
}

func metadataField(name string) string { return "metadata[" + excerpt(name) + "]" }

// delayOf reads what watermill/components/delay has set. The duration comes first: the database adds it to its own
// clock, while the time beside it was taken from the clock of this machine.
func delayOf(metadata message.Metadata) (seconds, until float64, problem *MessageError) {
	if text := metadata[delay.DelayedForKey]; text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, 0, &MessageError{Field: metadataField(delay.DelayedForKey), Reason: excerpt(text) + ` is no duration such as "1m30s"`}
		}
		return max(d.Seconds(), 0), 0, nil
	}
	if text := metadata[delay.DelayedUntilKey]; text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0, 0, &MessageError{Field: metadataField(delay.DelayedUntilKey), Reason: excerpt(text) + ` is no time such as "2006-01-02T15:04:05Z"`}
		}
		return 0, max(float64(t.UnixMicro())/1e6, 0), nil
	}
	return 0, 0, nil
}
