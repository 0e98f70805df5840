package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// messageJSON is a message as a line of JSON: consume and dead print it, and publish reads it.
type messageJSON struct {
	UUID     string           `json:"uuid,omitempty"`
	Topic    string           `json:"topic,omitempty"`
	Key      string           `json:"key,omitempty"`
	Metadata message.Metadata `json:"metadata,omitempty"`
	// Payload is text as a string, null for none (a tombstone), or any other JSON value, which stands for itself.
	Payload json.RawMessage `json:"payload,omitempty"`
	// PayloadBase64 is there instead if the payload is no text.
	PayloadBase64 []byte `json:"payload_base64,omitempty"`
}

var (
	null         = json.RawMessage("null")
	errNoPayload = errors.New("it is missing; null writes a message without one, a tombstone")
	errPayloads  = errors.New("there is payload_base64 as well; only one of them may be given")
)

func (m *messageJSON) setPayload(payload []byte) error {
	if payload == nil {
		m.Payload = null
		return nil
	}
	if !utf8.Valid(payload) {
		m.PayloadBase64 = payload
		return nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(string(payload))
	m.Payload = bytes.TrimSpace(text.Bytes())
	return err
}

// payload gives what setPayload was given.
func (m *messageJSON) payload() ([]byte, error) {
	switch {
	case m.Payload != nil && m.PayloadBase64 != nil:
		return nil, errPayloads
	case m.Payload == nil && m.PayloadBase64 == nil:
		return nil, errNoPayload
	case m.Payload == nil:
		return m.PayloadBase64, nil
	case bytes.Equal(m.Payload, null):
		return nil, nil
	}
	if m.Payload[0] != '"' {
		return m.Payload, nil
	}
	var text string
	err := json.Unmarshal(m.Payload, &text)
	return []byte(text), err
}

// letterJSON is a dead letter.
type letterJSON struct {
	ID int64 `json:"id"`
	messageJSON
	Attempts    int       `json:"attempts"`
	Error       string    `json:"error"`
	CreatedAt   time.Time `json:"created_at"`
	DiedAt      time.Time `json:"died_at"`
	AgeSeconds  float64   `json:"age_seconds"`
	Quarantines bool      `json:"quarantines"`
	Tail        bool      `json:"tail"`
}

func letterOf(l outbox.DeadLetter) (letterJSON, error) {
	j := letterJSON{
		ID: l.ID, Attempts: l.Attempts, Error: l.LastError, CreatedAt: l.CreatedAt, DiedAt: l.DiedAt,
		AgeSeconds: l.Age.Seconds(), Quarantines: l.Quarantines, Tail: l.Tail,
		messageJSON: messageJSON{UUID: l.UUID, Topic: l.Topic, Key: l.Key, Metadata: l.Metadata},
	}
	err := j.setPayload(l.Payload)
	return j, err
}

// printJSON writes a value for people and scripts.
func (a *app) printJSON(value any) error {
	encoder := json.NewEncoder(a.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
