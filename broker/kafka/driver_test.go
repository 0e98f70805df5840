package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/kafka"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestABadURLIsRefusedWithAllThatIsWrongAndWithoutThePassword(t *testing.T) {
	_, err := broker.NewMux(kafka.Driver{}).Open(t.Context(), "kafka://ann:hidden@host?sasl=kerberos&create_topics=maybe&compressoin=zstd", broker.Options{})
	require.EqualError(t, err, `broker: sasl: "kerberos" must be one of plain, scram-sha-256, scram-sha-512
broker: create_topics: "maybe" must be true or false
broker: compressoin: there is no such parameter; did you mean "compression"?`)
	_, err = broker.NewMux(kafka.Driver{}).Open(t.Context(), "kafka://host/topic", broker.Options{})
	require.ErrorContains(t, err, "path")
}

func TestASubscriberNeedsAGroup(t *testing.T) {
	_, err := open(t, "127.0.0.1:1", "", "").Subscriber()
	require.ErrorIs(t, err, broker.ErrNoGroup)
}

// logs keeps what was logged.
type logs struct {
	watermill.LoggerAdapter
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) note(parts ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.text, parts...)
}
func (l *logs) Error(msg string, err error, f watermill.LogFields) { l.note(msg, err, f) }
func (l *logs) Info(msg string, f watermill.LogFields)             { l.note(msg, f) }
func (l *logs) Debug(msg string, f watermill.LogFields)            { l.note(msg, f) }
func (l *logs) Trace(msg string, f watermill.LogFields)            { l.note(msg, f) }
func (l *logs) With(watermill.LogFields) watermill.LoggerAdapter   { return l }
func (l *logs) String() string                                     { l.mu.Lock(); defer l.mu.Unlock(); return l.text.String() }

func TestAPasswordWorksAndAWrongOneIsAnOutageThatTellsNobody(t *testing.T) {
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(mechanism, func(t *testing.T) {
			names := map[string]string{"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.EnableSASL(),
				kfake.Superuser(names[mechanism], "ann", "s3cret"))
			require.NoError(t, err)
			t.Cleanup(cluster.Close)
			addr := cluster.ListenAddrs()[0]

			b, err := broker.NewMux(kafka.Driver{}).Open(t.Context(), "kafka://ann:s3cret@"+addr+"?sasl="+mechanism, broker.Options{Group: "g"})
			require.NoError(t, err)
			defer func() { require.NoError(t, b.Close()) }()
			require.NoError(t, b.Ping(t.Context()))
			topic := testdb.Random("topic_")
			require.NoError(t, b.Publisher().Publish(topic, message.NewMessage("1", []byte("x"))))
			subscriber, err := b.Subscriber()
			require.NoError(t, err)
			messages, err := subscriber.Subscribe(t.Context(), topic)
			require.NoError(t, err)
			select {
			case msg := <-messages:
				require.Equal(t, "1", msg.UUID)
				msg.Ack()
			case <-time.After(patience):
				t.Fatal("waited in vain for the message")
			}

			log := &logs{}
			wrong, err := broker.NewMux(kafka.Driver{}).Open(t.Context(), "kafka://ann:hidden@"+addr+"?sasl="+mechanism, broker.Options{Logger: log})
			require.NoError(t, err)
			defer func() { require.NoError(t, wrong.Close()) }()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err = wrong.Publisher().Publish(topic, message.NewMessageWithContext(ctx, "2", nil))
			require.Error(t, err)
			require.Equal(t, outbox.FailureOutage, wrong.Classify(err), "%v", err)
			require.NotContains(t, err.Error()+log.String(), "hidden")
		})
	}
}

func TestABrokerThatIsNotThereIsAnOutage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	b := open(t, addr, "", "")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	require.Error(t, b.Ping(ctx))
	for _, err := range b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, []outbox.Outgoing{outgoing("t", "k", "1"), outgoing("t", "", "2")}) {
		require.Error(t, err)
		require.Equal(t, outbox.FailureOutage, b.Classify(err), "%v", err)
	}
}

func TestAnUnknownTopicIsPermanentOnceThatIsSure(t *testing.T) {
	addr, _ := services.Kafka(t)
	b := open(t, addr, "create_topics=false", "")
	topic := testdb.Random("nowhere_")
	verdicts := publishBatch(t, b, outgoing(topic, "k", "1"), outgoing(newTopic(t, addr, nil), "", "2"))
	var unknown *kafka.UnknownTopicError
	require.ErrorAs(t, verdicts[0], &unknown)
	require.Equal(t, outbox.FailureOfMessage, b.Classify(verdicts[0]), "a broker that starts may not know its topics yet")
	require.NoError(t, verdicts[1])
	deadline := time.Now().Add(patience)
	for b.Classify(verdicts[0]) != outbox.FailurePermanent {
		require.True(t, time.Now().Before(deadline), "it stays unknown, and that becomes final")
		verdicts = publishBatch(t, b, outgoing(topic, "k", "1"))
		require.ErrorAs(t, verdicts[0], &unknown)
	}
}

func TestWhatErrorsMean(t *testing.T) {
	b := open(t, "127.0.0.1:1", "", "")
	for kind, errs := range map[outbox.FailureKind][]error{
		outbox.FailurePermanent: {kerr.MessageTooLarge, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed, kerr.InvalidRecord, kerr.PolicyViolation},
		outbox.FailureOutage:    {kerr.NotEnoughReplicas, kerr.SaslAuthenticationFailed, kerr.ClusterAuthorizationFailed, kerr.NotLeaderForPartition, context.DeadlineExceeded, broker.ErrClosed},
		outbox.FailureUnknown:   {kerr.UnknownTopicOrPartition, errors.New("something else")},
	} {
		for _, err := range errs {
			require.Equal(t, kind, b.Classify(fmt.Errorf("wrapped: %w", err)), "%v", err)
		}
	}
}

func TestAnInvalidTopicIsPermanent(t *testing.T) {
	addr, _ := services.Kafka(t)
	b := open(t, addr, "", "")
	verdicts := publishBatch(t, b, outgoing("not a topic!", "k", "1"), outgoing("not a topic!", "k", "2"), outgoing(newTopic(t, addr, nil), "l", "1"))
	require.True(t, outbox.IsPermanent(verdicts[0]), "%v", verdicts[0])
	require.ErrorIs(t, verdicts[1], outbox.ErrHeldBack)
	require.NoError(t, verdicts[2])
}

func TestMetadataThatTheWireFormatReservesIsPermanent(t *testing.T) {
	addr, _ := services.Kafka(t)
	b := open(t, addr, "", "")
	out := outgoing(newTopic(t, addr, nil), "", "1")
	out.Message.Metadata.Set("_watermill_message_uuid", "x")
	require.True(t, outbox.IsPermanent(publishBatch(t, b, out)[0]))
}

// Under -race: whatever a publish meets, it ends, with an error that says closed or is an outage, and nothing panics.
func TestPublishRacesClose(t *testing.T) {
	addr, _ := services.Kafka(t)
	topic := newTopic(t, addr, nil)
	for range 10 {
		b := open(t, addr, "", "")
		var publishing sync.WaitGroup
		for range 8 {
			publishing.Go(func() {
				for {
					err := b.Publisher().Publish(topic, message.NewMessage("1", nil))
					verdicts := b.Publisher().(outbox.BatchPublisher).PublishBatch(context.Background(), []outbox.Outgoing{outgoing(topic, "k", "1")})
					if err != nil && verdicts[0] != nil {
						if b.Classify(err) != outbox.FailureOutage || b.Classify(verdicts[0]) != outbox.FailureOutage {
							t.Errorf("%v, %v", err, verdicts[0])
						}
						return
					}
				}
			})
		}
		require.NoError(t, b.Publisher().Publish(topic, message.NewMessage("2", nil)))
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
		publishing.Wait()
		require.ErrorIs(t, b.Publisher().Publish(topic, message.NewMessage("3", nil)), broker.ErrClosed)
	}
}

func TestATopicsNameThatKafkaCannotHaveIsPermanent(t *testing.T) {
	addr, _ := services.Kafka(t)
	b := open(t, addr, "", "")
	for _, name := range []string{"", ".", "..", "a b", "a/b", "ü", "a\n", strings.Repeat("a", 250)} {
		err := publishBatch(t, b, outgoing(name, "", "1"))[0]
		require.True(t, outbox.IsPermanent(err), "%q: %v", name, err)
		require.ErrorContains(t, err, "1 to 249 letters")
	}
	long := testdb.Random("aZ.9-_")
	require.NoError(t, publishBatch(t, b, outgoing(long+strings.Repeat("x", 249-len(long)), "", "1"))[0])
}

func TestTLS(t *testing.T) {
	a := brokertest.NewAuthority(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.TLS(a.Server(t)))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	brokertest.SpeaksTLS(t, kafka.Driver{}, "kafka+tls://"+cluster.ListenAddrs()[0], a, "")
}
