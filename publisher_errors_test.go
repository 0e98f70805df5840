package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

var (
	errExecuted   = errors.New("executed")
	errRefused    = errors.New("refused by a test")
	errRolledBack = errors.New("rolled back by a test")
)

// failing is an executor that must not be called.
type failing struct{}

func (failing) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, errExecuted
}

// refused is a call whose last message must not be stored.
type refused struct {
	name, topic string
	config      outbox.PublisherConfig
	msg         func() *message.Message
	field       string
	says        []string
	err         error
}

func with(change func(*message.Message)) func() *message.Message {
	return func() *message.Message {
		msg := text("the-uuid", "SECRET")
		change(msg)
		return msg
	}
}

func unchanged() *message.Message { return with(func(*message.Message) {})() }

func withMetadata(name, value string) func() *message.Message {
	return with(func(msg *message.Message) { msg.Metadata.Set(name, value) })
}

func withUUID(uuid string) func() *message.Message {
	return with(func(msg *message.Message) { msg.UUID = uuid })
}

func withKey(key string) outbox.PublisherConfig {
	return outbox.PublisherConfig{Key: func(_ string, msg *message.Message) (string, error) {
		if msg.UUID == "good" {
			return "", nil
		}
		return key, nil
	}}
}

func refusals() []refused {
	failingFor := func(_ string, msg *message.Message) error {
		if msg.UUID == "good" {
			return nil
		}
		return errRefused
	}
	const nul, utf8 = "NUL byte at position 1", "not valid UTF-8 at position 1"
	return []refused{
		{name: "nil message", msg: func() *message.Message { return nil }, field: "message", says: []string{"is nil"}},
		{name: "NUL in the uuid", msg: withUUID("a\x00b"), field: "uuid", says: []string{nul}},
		{name: "invalid UTF-8 in the uuid", msg: withUUID("a\xff"), field: "uuid", says: []string{utf8}},
		{name: "endless uuid", msg: withUUID(strings.Repeat("u", 1<<20+1)), field: "uuid", says: []string{"1048577 bytes, at most 1048576"}},
		{name: "NUL in the key", config: withKey("a\x00"), msg: unchanged, field: "key", says: []string{nul}},
		{name: "invalid UTF-8 in the key", config: withKey("a\xc3"), msg: unchanged, field: "key", says: []string{utf8}},
		{name: "long key", config: withKey(strings.Repeat("k", 2049)), msg: unchanged, field: "key", says: []string{"2049 bytes, at most 2048"}},
		{name: "NUL in SetKey", msg: withMetadata(outbox.KeyMetadata, "a\x00"), field: "key", says: []string{nul}},
		{name: "NUL in a metadata value", msg: withMetadata("m", "a\x00"), field: `metadata["m"]`, says: []string{"the value", nul}},
		{name: "NUL in a metadata name", msg: withMetadata("a\x00", "SECRET"), field: `metadata["a\x00"]`, says: []string{"the name", nul}},
		{name: "invalid UTF-8 in a metadata value", msg: withMetadata("m", "S\xa0SECRET"), field: `metadata["m"]`, says: []string{"the value", utf8}},
		{name: "surrogate in a metadata value", msg: withMetadata("m", "S\xed\xa0\x80"), field: `metadata["m"]`, says: []string{utf8}},
		{name: "invalid UTF-8 in a metadata name", msg: withMetadata("S\xff", "SECRET"), field: `metadata["S\xff"]`, says: []string{"the name", utf8}},
		{name: "too much metadata", msg: withMetadata("m", strings.Repeat("\x01", 3<<20)), field: "metadata", says: []string{"18874376 bytes", "16777216"}},
		{name: "too large a payload", config: outbox.PublisherConfig{MaxPayloadBytes: 5}, msg: unchanged, field: "payload", says: []string{"6 bytes", "MaxPayloadBytes allows 5"}},
		{name: "Check", config: outbox.PublisherConfig{Check: failingFor}, msg: unchanged, field: "check", err: errRefused},
		{name: "Key", config: outbox.PublisherConfig{Key: func(topic string, msg *message.Message) (string, error) {
			return "", failingFor(topic, msg)
		}}, msg: unchanged, field: "key", err: errRefused},
		{name: "no duration", msg: withMetadata(delay.DelayedForKey, "soon"), field: `metadata["_watermill_delayed_for"]`, says: []string{`"soon" is no duration`}},
		{name: "no time", msg: withMetadata(delay.DelayedUntilKey, "tomorrow"), field: `metadata["_watermill_delayed_until"]`, says: []string{`"tomorrow" is no time`}},
		{name: "empty topic", topic: "empty", msg: unchanged, field: "topic", says: []string{"is empty"}},
		{name: "NUL in the topic", topic: "a\x00", msg: unchanged, field: "topic", says: []string{nul}},
		{name: "invalid UTF-8 in the topic", topic: "a\xe2\x82", msg: unchanged, field: "topic", says: []string{utf8}},
		{name: "long topic", topic: strings.Repeat("t", 2049), msg: unchanged, field: "topic", says: []string{"2049 bytes, at most 2048"}},
	}
}

func TestRefusedMessageLeavesTheTransactionUsable(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	for _, r := range refusals() {
		t.Run(r.name, func(t *testing.T) {
			topic := map[string]string{"": "orders", "empty": ""}[r.topic]
			if r.topic != "" && r.topic != "empty" {
				topic = r.topic
			}
			if r.config.MaxPayloadBytes == 0 {
				r.config.MaxPayloadBytes = 6
			}
			tx := w.begin(t)
			publisher := publisherOf(t, tx, r.config)
			for _, call := range [][]*message.Message{{r.msg()}, {text("good", ""), r.msg()}} {
				requireRefused(t, r, publisher.Publish(topic, call...), len(call)-1)
			}
			require.NoError(t, publisher.Publish("orders", text("good", "")))
			require.NoError(t, tx.Commit())
		})
	}
	require.Len(t, w.stored(t), len(refusals()), "something of a refused call was stored")
}

func requireRefused(t *testing.T, r refused, err error, index int) {
	t.Helper()
	var refusal *outbox.MessageError
	require.ErrorAs(t, err, &refusal)
	uuid := ""
	if msg := r.msg(); msg != nil {
		uuid = msg.UUID
	}
	if r.field == "topic" { // the call's, so refused with its first message
		index = 0
	} else {
		require.Equal(t, uuid, refusal.UUID)
	}
	require.Equal(t, index, refusal.Index)
	require.Equal(t, r.field, refusal.Field)
	require.Regexp(t, fmt.Sprintf(`^outbox: message %d\b`, index), err)
	for _, part := range append(r.says, r.field) {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "SECRET")
	require.NotContains(t, err.Error(), "\x00")
	require.Less(t, len(err.Error()), 400)
	if r.err != nil {
		require.ErrorIs(t, err, r.err)
	}
}

func TestMessageErrorReadsWell(t *testing.T) {
	t.Parallel()
	publisher := publisherOf(t, failing{}, outbox.PublisherConfig{})
	err := publisher.Publish("orders", unchanged(), withMetadata("trace id", "a\x00")())
	require.EqualError(t, err, `outbox: message 1 (uuid "the-uuid"): metadata["trace id"]: the value has a NUL byte at position 1, `+
		`which PostgreSQL can't store; encode it, as base64 for example`)
	err = publisherOf(t, failing{}, outbox.PublisherConfig{
		Check: func(string, *message.Message) error { return errRefused },
	}).Publish("orders", unchanged())
	require.EqualError(t, err, `outbox: message 0 (uuid "the-uuid"): check: refused by Check: refused by a test`)
}

func TestPanicOfCheckOrKeyIsTheCallers(t *testing.T) {
	t.Parallel()
	panicking := map[string]outbox.PublisherConfig{
		"Check": {Check: func(string, *message.Message) error { panic("of the test") }},
		"Key":   {Key: func(string, *message.Message) (string, error) { panic("of the test") }},
	}
	for name, config := range panicking {
		publisher := publisherOf(t, failing{}, config)
		require.PanicsWithValue(t, "of the test", func() { _ = publisher.Publish("orders", unchanged()) }, name)
	}
}

func TestKeyComesFromConfigOrMetadata(t *testing.T) {
	t.Parallel()
	w := newWriting(t)
	msg := text("a", "")
	outbox.SetKey(msg, "metadata")
	require.Equal(t, "metadata", outbox.Key(msg))
	require.NoError(t, publisherOf(t, w.db, outbox.PublisherConfig{}).Publish("orders", msg))
	require.NoError(t, publisherOf(t, w.db, withKey("config")).Publish("orders", msg))
	outbox.SetKey(msg, "")
	require.Empty(t, msg.Metadata)
	require.NoError(t, publisherOf(t, w.db, outbox.PublisherConfig{}).Publish("orders", msg))

	bare := &message.Message{}
	require.Empty(t, outbox.Key(bare))
	outbox.SetKey(bare, "")
	outbox.SetKey(bare, "k")
	require.Equal(t, "k", outbox.Key(bare))

	rows := w.stored(t)
	require.Equal(t, []string{"metadata", "config", ""}, []string{rows[0].Key, rows[1].Key, rows[2].Key})
	require.Equal(t, map[string]string{outbox.KeyMetadata: "metadata"}, rows[1].Metadata, "metadata is stored as it was")
}
