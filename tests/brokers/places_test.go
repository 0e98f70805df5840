package brokers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	suite "github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/all"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// place is a kind of broker, and what the tests have to know of it.
type place struct {
	name string
	// shared gives the URL of one that other tests use too.
	shared func(t testing.TB) string
	// service is its name for scripts/services, if it has one.
	service string
	// url makes one of a service's address.
	url func(address string) string
	// poison gives a topic and a payload that it refuses for good; nil if there is none.
	poison func(t testing.TB, s *site, topic string) (badTopic, payload string)
	// features are what Watermill's suite may ask of it.
	features suite.Features
}

// keeping are what the suite may ask of a broker that keeps messages for groups. About order it may not: the suite's messages
// have no key, so that the outbox promises them none.
var keeping = suite.Features{ConsumerGroups: true, Persistent: true, ForceShort: true}

var places = []place{
	{
		name: "kafka", service: "kafka", url: func(address string) string { return "kafka://" + address }, features: keeping,
		shared: func(t testing.TB) string { t.Helper(); address, _ := services.Kafka(t); return "kafka://" + address },
		poison: func(_ testing.TB, _ *site, topic string) (string, string) { return topic, incompressible(2 << 20) },
	},
	{
		name: "redis", service: "redis", url: itself, features: keeping,
		shared: func(t testing.TB) string { t.Helper(); url, _ := services.Redis(t); return url },
		poison: func(t testing.TB, s *site, topic string) (string, string) {
			t.Helper()
			options, err := redis.ParseURL(s.address)
			require.NoError(t, err)
			client := redis.NewClient(options)
			defer func() { require.NoError(t, client.Close()) }()
			require.NoError(t, client.Set(t.Context(), topic+"-text", "no stream", 0).Err())
			return topic + "-text", "x"
		},
	},
	{
		name: "nats", service: "nats", url: itself, features: keeping,
		shared: func(t testing.TB) string { t.Helper(); url, _ := services.NATS(t); return url },
		poison: func(_ testing.TB, _ *site, topic string) (string, string) { return topic, strings.Repeat("x", 2<<20) },
	},
	{
		name: "sql", features: keeping,
		shared: func(t testing.TB) string {
			t.Helper()
			return testdb.URL(t) + "&schema=public&poll_interval=20ms&resend_interval=5ms"
		},
		poison: func(_ testing.TB, _ *site, topic string) (string, string) { return topic + "/", "x" },
	},
	{
		name: "gochannel", features: keeping,
		shared: func(testing.TB) string { return "gochannel://" + testdb.Random("tests-") },
	},
}

// withAMQP has RabbitMQ, too, where there is one: it has no stand-in.
func withAMQP(t testing.TB) []place {
	t.Helper()
	address, isReal := services.AMQP(t)
	if !isReal {
		return places
	}
	return append(slices.Clone(places), place{
		name: "amqp", service: "rabbitmq", url: itself, features: keeping,
		shared: func(testing.TB) string { return address },
		poison: func(_ testing.TB, _ *site, topic string) (string, string) { return strings.Repeat(topic, 20), "x" },
	})
}

// incompressible gives a text that is as long on its way.
func incompressible(bytes int) string {
	raw := make([]byte, bytes/2)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}

func itself(address string) string { return address }

// site is one broker in one test.
type site struct {
	place
	address string
	service *services.Controlled // nil: it can't be stopped
	down    atomic.Bool          // then it is as good as stopped
}

// own gives a broker that the test has for itself if it is a real one.
func (p place) own(t testing.TB) *site {
	t.Helper()
	s := &site{place: p}
	if p.service != "" {
		if service, isReal := services.Control(t, p.service); isReal {
			s.service, s.address = service, p.url(service.Address)
			return s
		}
	}
	s.address = p.shared(t)
	return s
}

// open opens it for a group.
func (s *site) open(t testing.TB, group string) broker.Broker {
	t.Helper()
	b, err := all.Open(t.Context(), s.address, broker.Options{Group: group})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// stop and start are an outage: of the service, or, if there is none, between the forwarder and the broker.
func (s *site) stop(t testing.TB) {
	t.Helper()
	if s.service != nil {
		require.NoError(t, s.service.Stop())
	}
	s.down.Store(true)
}

// kill is an outage without a warning.
func (s *site) kill(t testing.TB) {
	t.Helper()
	if s.service != nil {
		require.NoError(t, s.service.Kill())
	}
	s.down.Store(true)
}

func (s *site) start(t testing.TB) {
	t.Helper()
	if s.service != nil {
		require.NoError(t, s.service.Start())
	}
	s.down.Store(false)
}

var errDown = errors.New("the broker can't be reached")

// publisher gives the broker's, behind what an outage of a stand-in is made with.
func (s *site) publisher(b broker.Broker) message.Publisher {
	if s.service != nil {
		return b.Publisher()
	}
	g := gate{Publisher: b.Publisher(), site: s}
	if batches, ok := b.Publisher().(outbox.BatchPublisher); ok {
		return batchGate{gate: g, batches: batches}
	}
	return g
}

// classify is the broker's; the outage of a stand-in is one, as a driver would say.
func (s *site) classify(b broker.Broker) func(error) outbox.FailureKind {
	return func(err error) outbox.FailureKind {
		if errors.Is(err, errDown) {
			return outbox.FailureOutage
		}
		return b.Classify(err)
	}
}

type gate struct {
	message.Publisher
	site *site
}

// Publish fails while the broker is down.
func (g gate) Publish(topic string, messages ...*message.Message) error {
	if g.site.down.Load() {
		return errDown
	}
	return g.Publisher.Publish(topic, messages...)
}

type batchGate struct {
	gate
	batches outbox.BatchPublisher
}

// PublishBatch fails while the broker is down.
func (g batchGate) PublishBatch(ctx context.Context, batch []outbox.Outgoing) []error {
	if !g.site.down.Load() {
		return g.batches.PublishBatch(ctx, batch)
	}
	verdicts := make([]error, len(batch))
	for i := range verdicts {
		verdicts[i] = errDown
	}
	return verdicts
}
