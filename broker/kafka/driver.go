package kafka

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Driver opens kafka and kafka+tls URLs.
type Driver struct{}

// Schemes are kafka and kafka+tls.
func (Driver) Schemes() []string { return []string{"kafka", "kafka+tls"} }

// settings are what a URL says.
type settings struct {
	broker.Options
	addresses    []string
	tls          *tls.Config
	sasl         string // "" for none
	clientID     string
	createTopics bool
	compression  kgo.CompressionCodec
	maxBytes     int
	fromOldest   bool
}

// Open makes the clients; they connect when they are used.
func (Driver) Open(_ context.Context, url *broker.URL, options broker.Options) (broker.Broker, error) {
	s, err := read(url, options)
	if err != nil {
		return nil, err
	}
	return open(s)
}

func read(url *broker.URL, options broker.Options) (s settings, err error) {
	s.Options = options
	if s.addresses, err = url.Addresses("9092"); err != nil {
		return s, err
	}
	if url.Path != "" {
		return s, &broker.URLError{Part: "path", Reason: "a Kafka URL has none; topics are named by the messages"}
	}
	p := url.Params()
	s.tls = p.TLS(url.Scheme == "kafka+tls")
	mechanism := ""
	if options.User != "" {
		mechanism = "scram-sha-512"
	}
	s.sasl = p.OneOf("sasl", mechanism, "plain", "scram-sha-256", "scram-sha-512")
	s.clientID = p.String("client_id", "watermill-outbox")
	s.createTopics = p.Bool("create_topics", true)
	s.compression = codecs[p.OneOf("compression", "snappy", "none", "gzip", "snappy", "lz4", "zstd")]
	s.maxBytes = min(p.Int("max_message_bytes", 1048588, 1024), maxBatchBytes)
	s.fromOldest = p.OneOf("from", "oldest", "oldest", "newest") == "oldest"
	return s, p.Err()
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// clientOptions are those of every producer.
func (s *settings) clientOptions() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.addresses...), kgo.ClientID(s.clientID), kgo.WithLogger(clientLogger{s.Logger}),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(s.compression),
		kgo.RecordPartitioner(kgo.UniformBytesPartitioner(spreadBytes, false, true, kgo.SaramaCompatHasher(fnv32a))),
		kgo.MaxBufferedRecords(maxBuffered), kgo.DialTimeout(dialTimeout),
	}
	if s.createTopics {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	if s.tls != nil {
		opts = append(opts, kgo.DialTLSConfig(s.tls))
	}
	if mechanism := s.mechanism(); mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts
}

const (
	// spreadBytes is how much of what has no key goes to one partition before another has its turn.
	spreadBytes = 16 << 10
	// maxBuffered is far above a forwarder's batch: buffering must never wait for a flush.
	maxBuffered = 1 << 20
	dialTimeout = 5 * time.Second
)

func (s *settings) mechanism() sasl.Mechanism {
	switch s.sasl {
	case "plain":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
	case "scram-sha-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism()
	case "scram-sha-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()
	}
	return nil
}
