package outbox

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// chunkBytes is how much of a call goes into one statement. A larger message goes in one of its own.
const chunkBytes = 64 << 20

// row is what preparing a message finds out about it.
type row struct {
	key          string
	delay, until float64 // seconds from now, and seconds since 1970; 0: none
	size         int     // about what it adds to a statement
}

// insertOneArgs are the arguments of insert_one.sql.
func insertOneArgs(topic string, msg *message.Message, r row) []any {
	var payload any // NULL as every driver understands it
	if msg.Payload != nil {
		payload = []byte(msg.Payload)
	}
	var metadata strings.Builder
	plainJSON.write(&metadata, msg.Metadata)
	return []any{topic, r.key, msg.UUID, payload, metadata.String(), r.delay, r.until}
}

// insertArgs are the arguments of insert.sql. A large payload comes alone, so what is copied here is bounded.
func insertArgs(topic string, messages []*message.Message, rows []row) []any {
	var keys, uuids, starts, lengths, metadata, delays, untils arrayWriter
	payloads := joinPayloads(messages)
	start, delayed := 1, false
	for i, msg := range messages {
		keys.text(rows[i].key)
		uuids.text(msg.UUID)
		starts.integer(start)
		if msg.Payload == nil {
			lengths.integer(-1)
		} else {
			lengths.integer(len(msg.Payload))
		}
		start += len(msg.Payload)
		metadata.json(msg.Metadata)
		delayed = delayed || rows[i].delay > 0 || rows[i].until > 0
	}
	if delayed { // else they stay empty, and unnest fills up with NULL
		for _, r := range rows {
			delays.float(r.delay)
			untils.float(r.until)
		}
	}
	return []any{topic, keys.literal(), uuids.literal(), payloads, starts.literal(), lengths.literal(), metadata.literal(),
		delays.literal(), untils.literal()}
}

// joinPayloads gives them in a row. The result is never nil: that would be NULL.
func joinPayloads(messages []*message.Message) []byte {
	total := 0
	for _, msg := range messages {
		total += len(msg.Payload)
	}
	joined := make([]byte, 0, total)
	for _, msg := range messages {
		joined = append(joined, msg.Payload...)
	}
	return joined
}

// arrayWriter writes the text of a PostgreSQL array. Texts are always quoted, so that NULL, braces, commas and the
// empty string are what they were.
type arrayWriter struct{ strings.Builder }

func (w *arrayWriter) next() {
	if w.Len() == 0 {
		w.WriteByte('{')
	} else {
		w.WriteByte(',')
	}
}

func (w *arrayWriter) literal() string {
	if w.Len() == 0 {
		return "{}"
	}
	w.WriteByte('}')
	return w.String()
}

func (w *arrayWriter) integer(n int) {
	w.next()
	w.WriteString(strconv.Itoa(n))
}

func (w *arrayWriter) float(f float64) {
	w.next()
	w.WriteString(strconv.FormatFloat(f, 'g', -1, 64))
}

func (w *arrayWriter) text(s string) {
	w.next()
	w.WriteByte('"')
	for {
		i := strings.IndexAny(s, `"\`)
		if i < 0 {
			break
		}
		w.WriteString(s[:i])
		w.WriteByte('\\')
		w.WriteByte(s[i])
		s = s[i+1:]
	}
	w.WriteString(s)
	w.WriteByte('"')
}

func (w *arrayWriter) json(metadata message.Metadata) {
	w.next()
	w.WriteByte('"')
	arrayJSON.write(&w.Builder, metadata)
	w.WriteByte('"')
}

// jsonDialect writes metadata as JSON: plain, or as it stands in a quoted element of an array. PostgreSQL's jsonb keeps
// every valid UTF-8 string but for NUL, so only what JSON itself needs is escaped.
type jsonDialect struct{ quote, backslash string }

var (
	plainJSON = jsonDialect{quote: `"`, backslash: `\`}
	arrayJSON = jsonDialect{quote: `\"`, backslash: `\\`}
)

func (d jsonDialect) write(w *strings.Builder, metadata message.Metadata) {
	separator := byte('{')
	for name, value := range metadata {
		w.WriteByte(separator)
		d.writeString(w, name)
		w.WriteByte(':')
		d.writeString(w, value)
		separator = ','
	}
	if separator == '{' {
		w.WriteByte('{')
	}
	w.WriteByte('}')
}

func (d jsonDialect) writeString(w *strings.Builder, s string) {
	const hex = "0123456789abcdef"
	w.WriteString(d.quote)
	done := 0
	for i := range len(s) {
		c := s[i]
		if !jsonEscapes(c) {
			continue
		}
		w.WriteString(s[done:i])
		done = i + 1
		w.WriteString(d.backslash)
		switch c {
		case '"':
			w.WriteString(d.quote)
		case '\\':
			w.WriteString(d.backslash)
		default:
			w.WriteString("u00")
			w.WriteByte(hex[c>>4])
			w.WriteByte(hex[c&15])
		}
	}
	w.WriteString(s[done:])
	w.WriteString(d.quote)
}

func jsonEscapes(c byte) bool { return c < ' ' || c == '"' || c == '\\' }

// jsonSize is the length of metadata as plain JSON.
func jsonSize(metadata message.Metadata) int {
	size := len("{}") + max(0, len(metadata)-1) // and the commas
	for name, value := range metadata {
		size += len(`"":""`) + jsonStringSize(name) + jsonStringSize(value)
	}
	return size
}

func jsonStringSize(s string) int {
	size := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ':
			size += len(`\u0000`) - 1
		case jsonEscapes(c):
			size++
		}
	}
	return size
}

// textProblem says why PostgreSQL can't store a text, "" if it can.
func textProblem(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return fmt.Sprintf("has a NUL byte at position %d, which PostgreSQL can't store; encode it, as base64 for example", i)
	}
	if utf8.ValidString(s) {
		return ""
	}
	for i, r := range s {
		if _, width := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && width == 1 {
			return fmt.Sprintf("is not valid UTF-8 at position %d; encode it, as base64 for example", i)
		}
	}
	return ""
}
