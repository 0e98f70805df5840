package kafka

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// topicsKept is how long what the broker said of a topic is believed.
	topicsKept = 5 * time.Minute
	// freshFor is how long a limit counts as just asked for, that many large messages don't ask for it one by one.
	freshFor = time.Second
	// guessKept is when it is asked again although it did not tell the limit the last time.
	guessKept = 10 * time.Second
	// unknownAfter is how long a topic has to be unknown until that counts as final: a broker that starts may not know its
	// topics yet.
	unknownAfter = 5 * time.Second
	// maxBatchBytes is what fits into a request; franz-go and the broker (socket.request.max.bytes) allow 100 MiB.
	maxBatchBytes = 64 << 20
	// lookupTimeout bounds one question, so that there is time left to publish to other topics.
	lookupTimeout = 4 * time.Second
)

// UnknownTopicError says that a topic is not there, and that it must not be created.
type UnknownTopicError struct {
	Topic string
	// For is how long it has been looked for in vain.
	For time.Duration
}

// Error tells what to do.
func (e *UnknownTopicError) Error() string {
	return fmt.Sprintf("kafka: topic %q does not exist, and create_topics is off; create it", e.Topic)
}

// TooLargeError says that a message does not fit into its topic. It was not sent.
type TooLargeError struct {
	Topic string
	// Bytes is the size of the batch that the message alone makes; Limit is the topic's max.message.bytes.
	Bytes, Limit int
}

// Error gives both figures.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("kafka: the message makes a batch of %d bytes, topic %q takes %d (max.message.bytes)", e.Bytes, e.Topic, e.Limit)
}

// topics knows what the broker says of topics. It is safe for concurrent use.
type topics struct {
	admin    *kadm.Client
	fallback int  // max.message.bytes where the broker does not tell
	strict   bool // unknown ones are refused

	mu    sync.Mutex
	known map[string]topic
}

type topic struct {
	limit   int
	told    bool // by the broker; else it is a guess, by which nothing is refused
	asked   time.Time
	unknown time.Time // since when; zero: it is there
}

// look asks for those topics that are not known yet. Their errors come from limit.
func (t *topics) look(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := t.admin.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("kafka: asking for topics: %w", withHint(err))
	}
	var present []string
	for _, name := range names {
		if found[name].Err == nil {
			present = append(present, name)
		}
	}
	configs := kadm.ResourceConfigs{}
	if len(present) > 0 {
		if configs, err = t.admin.DescribeTopicConfigs(ctx, present...); err != nil {
			return fmt.Errorf("kafka: asking for max.message.bytes: %w", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, name := range names {
		if err := found[name].Err; err != nil && kerr.IsRetriable(err) && err != kerr.UnknownTopicOrPartition { //nolint:errorlint // a sentinel
			continue // it says nothing about the topic
		}
		entry := topic{limit: t.fallback, asked: now}
		if limit, ok := maxMessageBytes(configs, name); ok {
			entry.limit, entry.told = min(limit, maxBatchBytes), true
		}
		if found[name].Err == kerr.UnknownTopicOrPartition { //nolint:errorlint // a sentinel, never wrapped here
			entry.unknown = now
			if old := t.known[name]; !old.unknown.IsZero() {
				entry.unknown = old.unknown
			}
		}
		t.known[name] = entry
	}
	return nil
}

func maxMessageBytes(configs kadm.ResourceConfigs, topic string) (int, bool) {
	config, err := configs.On(topic, nil)
	if err != nil || config.Err != nil {
		return 0, false // not authorised to ask, for instance
	}
	for _, c := range config.Configs {
		if c.Key == "max.message.bytes" && c.Value != nil {
			n, err := strconv.Atoi(*c.Value)
			return n, err == nil
		}
	}
	return 0, false
}

// missing says whether a topic has to be asked for.
func (t *topics) missing(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	entry, ok := t.known[name]
	kept := topicsKept
	if !entry.told {
		kept = guessKept
	}
	return !ok || !entry.unknown.IsZero() || time.Since(entry.asked) > kept
}

// limit gives the largest batch of a topic, and whether the broker has told it, or an *UnknownTopicError.
func (t *topics) limit(name string) (bytes int, told bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	entry, ok := t.known[name]
	if !ok {
		return t.fallback, false, nil
	}
	if t.strict && !entry.unknown.IsZero() {
		return 0, false, &UnknownTopicError{Topic: name, For: time.Since(entry.unknown)}
	}
	return entry.limit, entry.told, nil
}

// askAgain forgets what is known of a topic, unless that is so young that nobody need ask again, and says whether it did.
func (t *topics) askAgain(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.known[name].asked) < freshFor {
		return false
	}
	delete(t.known, name)
	return true
}

// forget makes the next batch ask again: the broker's answers contradict what is known.
func (t *topics) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, name)
}
