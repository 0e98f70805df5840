package stdout

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// formats make lines of messages, each with its end.
var formats = map[string]func(topic string, msg *message.Message) ([]byte, error){"json": jsonLine, "text": textLine}

type line struct {
	Topic         string           `json:"topic"`
	Key           string           `json:"key,omitempty"`
	UUID          string           `json:"uuid,omitempty"`
	Metadata      message.Metadata `json:"metadata,omitempty"`
	Payload       *string          `json:"payload,omitempty"`
	PayloadBase64 *string          `json:"payload_base64,omitempty"`
}

func jsonLine(topic string, msg *message.Message) ([]byte, error) {
	l := line{Topic: topic, Key: outbox.Key(msg), UUID: msg.UUID, Metadata: msg.Metadata}
	switch {
	case msg.Payload == nil:
	case utf8.Valid(msg.Payload):
		text := string(msg.Payload)
		l.Payload = &text
	default:
		text := base64.StdEncoding.EncodeToString(msg.Payload)
		l.PayloadBase64 = &text
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(l)
	return b.Bytes(), err
}

// textLine is: topic [key] uuid payload.
func textLine(topic string, msg *message.Message) ([]byte, error) {
	parts := []string{printable(topic)}
	if key := outbox.Key(msg); key != "" {
		parts = append(parts, "["+printable(key)+"]")
	}
	parts = append(parts, printable(msg.UUID), printable(string(msg.Payload)))
	return []byte(strings.Join(parts, " ") + "\n"), nil
}

// printable quotes a text that would break the line or the terminal.
func printable(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	return strconv.Quote(text)
}
