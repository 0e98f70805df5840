package nats

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// exactHeader has, encoded as the parameters of a URL, what headers can't carry as it is: the UUID as uuid, metadata as
	// m. and the name.
	exactHeader = "_watermill_outbox_exact"
	exactUUID   = "uuid"
	exactPrefix = "m."
	// serverPrefix begins the headers by which a message instructs the server, to purge its stream for instance.
	serverPrefix = "nats-"
)

// marshal makes a message in the format of watermill-nats's NATSMarshaler, with an id for the server's duplicate window.
func marshal(topic string, msg *message.Message) (*client.Msg, error) {
	exact := url.Values{}
	plain := message.NewMessage(msg.UUID, msg.Payload)
	if msg.UUID != clean(msg.UUID) {
		plain.UUID = clean(msg.UUID)
		exact.Set(exactUUID, msg.UUID)
	}
	for name, value := range msg.Metadata {
		if !validName(name) || value != clean(value) {
			exact.Set(exactPrefix+name, value)
		}
		if validName(name) {
			plain.Metadata.Set(name, clean(value))
		}
	}
	m, err := (&wmnats.NATSMarshaler{}).Marshal(topic, plain)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	if len(exact) > 0 {
		m.Header.Set(exactHeader, exact.Encode())
	}
	if id := messageID(topic, msg); id != "" {
		m.Header.Set(jetstream.MsgIDHeader, id)
	}
	return m, nil
}

// unmarshal makes a Watermill message of any that a stream can have. There is none that it refuses: it would come again for
// ever, and let nothing pass.
func unmarshal(m jetstream.Msg) (*message.Message, error) {
	plain := &client.Msg{Header: client.Header{}, Data: m.Data()}
	for name, values := range m.Headers() {
		if validName(name) || name == wmnats.WatermillUUIDHdr {
			plain.Header.Set(name, strings.Join(values, ", "))
		}
	}
	msg, err := (&wmnats.NATSMarshaler{}).Unmarshal(plain)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	exact, err := url.ParseQuery(m.Headers().Get(exactHeader))
	if err != nil { // not ours
		return msg, nil //nolint:nilerr // nothing is missing but what only we can have put there
	}
	for name := range exact {
		if metadata, ok := strings.CutPrefix(name, exactPrefix); ok {
			msg.Metadata.Set(metadata, exact.Get(name))
		}
	}
	if exact.Has(exactUUID) {
		exactly := message.NewMessage(exact.Get(exactUUID), msg.Payload)
		exactly.Metadata = msg.Metadata
		return exactly, nil
	}
	return msg, nil
}

// clean gives a header's value as it would arrive.
func clean(value string) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(textproto.TrimString(value))
}

// validName says whether metadata of this name can be a header: of visible characters without a colon, and not one that
// means something to the server or to the format.
func validName(name string) bool {
	switch {
	case name == "", name == exactHeader, name == wmnats.WatermillUUIDHdr:
		return false
	case len(name) >= len(serverPrefix) && strings.EqualFold(name[:len(serverPrefix)], serverPrefix):
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' })
}

// messageID is the same whenever the same message is published to the same topic, and no other's: what the server takes for
// a duplicate, and drops, is equal in everything. A UUID alone would not do: a message may go to two topics of one stream,
// and one that a consumer had to give up may come back with new metadata. Messages without a UUID have no identity.
func messageID(topic string, msg *message.Message) string {
	if msg.UUID == "" {
		return ""
	}
	h := sha256.New()
	write(h, topic, msg.UUID)
	for _, name := range slices.Sorted(maps.Keys(msg.Metadata)) {
		write(h, name, msg.Metadata[name])
	}
	h.Write(msg.Payload)
	sum := base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
	return cmp.Or(clean(msg.UUID), "-") + "." + sum
}

// write writes texts with their lengths, so that no two sequences of texts look alike.
func write(w io.Writer, texts ...string) {
	for _, text := range texts {
		_ = binary.Write(w, binary.BigEndian, uint64(len(text))) // a hash never fails
		_, _ = io.WriteString(w, text)
	}
}

// size is what counts against max_payload.
func size(m *client.Msg) int64 {
	n := len("NATS/1.0\r\n\r\n") + len(m.Data)
	for name, values := range m.Header {
		for _, value := range values {
			n += len(name) + len(": \r\n") + len(value)
		}
	}
	return int64(n)
}
