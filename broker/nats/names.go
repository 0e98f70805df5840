package nats

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxTopic keeps a subject far from the length of a control line (4 KiB), of which it is a part.
	maxTopic = 255
	// maxName keeps a name, and so a consumer's of two, below JetStream's 255 bytes.
	maxName = 120
	hashed  = 8 // hex digits of a name's hash
)

// checkTopic returns an *InvalidTopicError for what can't be a subject that a message is published to.
func checkTopic(topic string) error {
	var reason string
	switch {
	case topic == "":
		reason = "it is empty"
	case len(topic) > maxTopic:
		reason = "it is longer than 255 bytes"
	case !utf8.ValidString(topic):
		reason = "it is not valid UTF-8"
	case strings.ContainsFunc(topic, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		reason = "it has white space or control characters"
	case strings.ContainsAny(topic, "*>"):
		reason = "* and > are wildcards"
	case strings.HasPrefix(topic, ".") || strings.HasSuffix(topic, ".") || strings.Contains(topic, ".."):
		reason = "between dots, and before and behind them, there must be something"
	case strings.HasPrefix(topic, "$") || topic == "_INBOX" || strings.HasPrefix(topic, "_INBOX."):
		reason = "subjects that begin with $ or _INBOX are the server's"
	default:
		return nil
	}
	return &InvalidTopicError{Topic: topic, Reason: reason}
}

// name makes a name of a stream or consumer. What has only letters, digits, _ and - stays as it is; of the rest, a hash
// makes sure that two never get the same: stream names don't allow the dots of subjects.
func name(text string) string {
	readable := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, text)
	if readable == text && len(text) <= maxName {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return readable[:min(len(readable), maxName-hashed-1)] + "-" + hex.EncodeToString(sum[:])[:hashed]
}

// streamName is the name of the stream that a topic gets if it has none.
func streamName(topic string) string { return name(topic) }

// consumerName is the name of the durable consumer that a group has for a topic. Both are in it, since a stream may have
// several topics.
func consumerName(group, topic string) string { return name(group) + "__" + name(topic) }
