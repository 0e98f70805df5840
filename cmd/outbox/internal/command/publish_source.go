package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// lineLimit bounds a line: the largest payload that the outbox takes, as base64.
const lineLimit = 100 << 20

// source gives messages as they are read.
type source struct {
	messages chan addressed
	err      error // why it ended, once messages is closed
	done     chan struct{}
}

// read begins to read.
func (f publishFlags) read(input io.Reader) *source {
	s := &source{messages: make(chan addressed, publishBatch), done: make(chan struct{})}
	go func() {
		defer close(s.messages)
		if f.one {
			s.err = f.readOne(input, s.give)
			return
		}
		s.err = f.readLines(input, s.give)
	}()
	return s
}

// stop ends the reading, once the input gives something.
func (s *source) stop() { close(s.done) }

func (s *source) give(m addressed) bool {
	select {
	case s.messages <- m:
		return true
	case <-s.done:
		return false
	}
}

// batch gives the next messages, at least one; with the error that ended the source, io.EOF for its end.
func (s *source) batch(ctx context.Context) (batch []addressed, err error) {
	size := 0
	var pause <-chan time.Time // nil: the first message may take as long as it likes
	for len(batch) < publishBatch && size < publishBytes {
		select {
		case m, ok := <-s.messages:
			if !ok {
				if s.err == nil {
					return batch, io.EOF
				}
				return batch, s.err
			}
			batch, size = append(batch, m), size+len(m.Payload)
			if pause == nil {
				pause = time.After(publishPause)
			}
		case <-pause:
			return batch, nil
		case <-ctx.Done():
			return nil, errors.New("interrupted")
		}
	}
	return batch, nil
}

func (f publishFlags) readOne(input io.Reader, give func(addressed) bool) error {
	payload, err := io.ReadAll(io.LimitReader(input, lineLimit))
	if err != nil {
		return fmt.Errorf("reading standard input: %w", err)
	}
	give(f.message(1, messageJSON{}, payload))
	return nil
}

func (f publishFlags) readLines(input io.Reader, give func(addressed) bool) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, lineLimit)
	number := 0
	for lines.Scan() {
		number++
		line := bytes.Clone(lines.Bytes())
		m := f.message(number, messageJSON{}, line)
		if f.lines {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			var err error
			if m, err = f.parse(number, line); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
		}
		if !give(m) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading standard input, line %d: %w", number+1, err)
	}
	return nil
}

func (f publishFlags) parse(number int, line []byte) (addressed, error) {
	var m letterJSON // what dead list prints may be read as well
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return addressed{}, fmt.Errorf("it is no message as JSON: %w", err)
	}
	if decoder.More() {
		return addressed{}, errors.New("it is no message as JSON: there is more behind it")
	}
	if err := exactNames(line); err != nil {
		return addressed{}, fmt.Errorf("it is no message as JSON: %w", err)
	}
	payload, err := m.payload()
	if err != nil {
		return addressed{}, fmt.Errorf("payload: %w", err)
	}
	return f.message(number, m.messageJSON, payload), nil
}

// exactNames refuses names that encoding/json takes although they are written otherwise: of topic and Topic one would be lost.
func exactNames(line []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if lower := strings.ToLower(name); lower != name {
			return fmt.Errorf("unknown field %q; did you mean %q?", name, lower)
		}
	}
	return nil
}

// message makes one of what a line says, and of what the flags say for all.
func (f publishFlags) message(line int, m messageJSON, payload []byte) addressed {
	msg := message.NewMessage(m.UUID, payload)
	maps.Copy(msg.Metadata, f.metadata)
	maps.Copy(msg.Metadata, m.Metadata)
	switch {
	case m.Key != "":
		outbox.SetKey(msg, m.Key)
	case outbox.Key(msg) == "":
		outbox.SetKey(msg, f.key)
	}
	topic := m.Topic
	if topic == "" {
		topic = f.topic
	}
	return addressed{line, topic, msg}
}
