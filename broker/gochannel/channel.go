package gochannel

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// ErrFull is wrapped by the error of a publish to a topic that keeps max_messages already.
var ErrFull = errors.New("gochannel: the topic is full: a group does not take its messages, or there is no group; see max_messages")

// channels are those of the process, by name.
var channels = struct {
	mu   sync.Mutex
	name map[string]*channel
}{name: map[string]*channel{}}

// named gives the one of a name.
func named(name string) *channel {
	channels.mu.Lock()
	defer channels.mu.Unlock()
	if channels.name[name] == nil {
		channels.name[name] = &channel{topics: map[string]*topic{}}
	}
	return channels.name[name]
}

// channel is the broker.
type channel struct {
	mu     sync.Mutex
	topics map[string]*topic
}

func (c *channel) topic(name string) *topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.topics[name] == nil {
		c.topics[name] = &topic{name: name, kept: map[uint64]*entry{}, groups: map[string]*group{}}
	}
	return c.topics[name]
}

// entry is a message that is kept.
type entry struct {
	seq     uint64 // its place in the topic
	key     string
	message *message.Message
	left    int // groups that have not acked it
}

// topic keeps messages for its groups. Its lock is the groups' too.
type topic struct {
	name string

	mu     sync.Mutex
	seq    uint64
	kept   map[uint64]*entry
	groups map[string]*group
}

// append puts a copy of a message at the end.
func (t *topic) append(msg *message.Message, limit int) error {
	e := &entry{key: outbox.Key(msg), message: clone(msg)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) >= limit {
		return fmt.Errorf("topic %q keeps %d messages: %w", t.name, len(t.kept), ErrFull)
	}
	t.seq++
	e.seq, e.left = t.seq, len(t.groups)
	t.kept[e.seq] = e
	for _, g := range t.groups {
		g.add(e)
	}
	return nil
}

// group gives the one of a name. A new one has all that is kept before it.
func (t *topic) group(name string) *group {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[name]
	if g == nil {
		g = &group{topic: t, behind: map[string][]*entry{}, changed: make(chan struct{})}
		t.groups[name] = g
		for _, seq := range slices.Sorted(maps.Keys(t.kept)) {
			t.kept[seq].left++
			g.add(t.kept[seq])
		}
	}
	return g
}

// clone gives a message of which nothing is shared.
func clone(msg *message.Message) *message.Message {
	c := msg.Copy()
	c.Payload = bytes.Clone(msg.Payload)
	return c
}
