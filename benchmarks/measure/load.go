// Package measure holds what every scenario needs: messages that can be checked, the stub broker that checks them, and
// the arithmetic on what was measured.
package measure

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
)

const (
	// Topic of every benchmark message.
	Topic = "bench"
	// KeyMetadata carries the ordering key; it is the library's own name for it, and the rivals carry it along.
	KeyMetadata = "outbox_key"
	// Unkeyed marks a message without an ordering key.
	Unkeyed = -1

	uuidPrefix   = "00000000-0000-4000-8000-"
	headerLength = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Load is a number of messages, spread evenly over keys. No keys at all: Keys is 0.
type Load struct {
	Count, Keys, Size int
}

// Message makes the message of an index from 0. The messages of a key are numbered from 1, without a gap.
func (l Load) Message(ctx context.Context, index int) *message.Message {
	if l.Keys == 0 {
		return NewMessage(ctx, index, Unkeyed, 0, l.Size)
	}
	return NewMessage(ctx, index, index%l.Keys, int64(index/l.Keys+1), l.Size)
}

// Expected is what a broker that got the whole load must have seen.
func (l Load) Expected(ctx context.Context) Expected {
	var e Expected
	for i := range l.Count {
		e.Add(l.Message(ctx, i))
	}
	return e
}

// Expected sums up messages independently of their order.
type Expected struct {
	Count int
	Sum   uint64
}

// Add counts one message.
func (e *Expected) Add(m *message.Message) {
	e.Count++
	e.Sum += checksum(m)
}

// Join adds what somebody else counted.
func (e *Expected) Join(other Expected) {
	e.Count += other.Count
	e.Sum += other.Sum
}

// NewMessage makes a message whose uuid and payload say which one it is. Its payload is at least 32 bytes long.
func NewMessage(ctx context.Context, index, key int, number int64, size int) *message.Message {
	payload := make([]byte, 0, max(size, headerLength))
	payload = fmt.Appendf(payload, "%010d %08d %012d", index, key, number)
	for len(payload) < size {
		payload = append(payload, filler[:min(len(filler), size-len(payload))]...)
	}
	m := message.NewMessageWithContext(ctx, uuid(index), payload)
	if key != Unkeyed {
		m.Metadata.Set(KeyMetadata, "k"+strconv.Itoa(key))
	}
	return m
}

// identity is what a message says about itself.
type identity struct {
	index, key int
	number     int64
}

var errForeign = errors.New("not one of this benchmark's messages")

func identify(m *message.Message) (identity, error) {
	var id identity
	if len(m.Payload) < headerLength || len(m.UUID) != len(uuidPrefix)+12 || !strings.HasPrefix(m.UUID, uuidPrefix) {
		return id, errForeign
	}
	named, err := hex.DecodeString(m.UUID[len(uuidPrefix):])
	if err != nil {
		return id, errors.Join(errForeign, err)
	}
	for _, b := range named {
		id.index = id.index<<8 | int(b)
	}
	index, indexErr := strconv.Atoi(string(m.Payload[:10]))
	key, keyErr := strconv.Atoi(string(m.Payload[11:19]))
	number, numberErr := strconv.ParseInt(string(m.Payload[20:headerLength]), 10, 64)
	if err := errors.Join(indexErr, keyErr, numberErr); err != nil || index != id.index {
		return id, errors.Join(errForeign, err)
	}
	id.key, id.number = key, number
	return id, nil
}

func uuid(index int) string { return fmt.Sprintf("%s%012x", uuidPrefix, index) }

// checksum covers uuid, key and payload. Summed up over messages it tells two sets of messages apart, in any order.
func checksum(m *message.Message) uint64 {
	sum := crc32.Update(0, castagnoli, m.Payload)
	head := crc32.Update(0, castagnoli, []byte(m.UUID))
	head = crc32.Update(head, castagnoli, []byte(m.Metadata.Get(KeyMetadata)))
	return uint64(head)<<24 ^ uint64(sum)
}

var filler = []byte(strings.Repeat("The quick brown fox jumps over the lazy dog 0123456789. ", 1024))
