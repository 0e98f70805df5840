package kafka

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/xdg-go/scram"
)

// createTimeout bounds the making of a topic.
const createTimeout = 30 * time.Second

// subscriber is watermill-kafka's. It connects when it subscribes.
type subscriber struct {
	*kafka.Subscriber
	settings *settings
	admin    *kadm.Client
}

// SubscribeInitialize makes a topic that is not there, with as many partitions and replicas as the broker has for its
// default. It does nothing if create_topics is off.
func (s *subscriber) SubscribeInitialize(topic string) error {
	if !s.settings.createTopics {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	defer cancel()
	if _, err := s.admin.CreateTopic(ctx, -1, -1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("kafka: making topic %q: %w", topic, err)
	}
	return nil
}

// Subscribe refuses a topic that can't be; watermill-kafka would ask for it for ever.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	return s.Subscriber.Subscribe(ctx, topic)
}

func newSubscriber(s *settings, admin *kadm.Client) (message.Subscriber, error) {
	inner, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: s.addresses, ConsumerGroup: s.Group, Unmarshaler: kafka.DefaultMarshaler{}, OverwriteSaramaConfig: s.sarama(),
	}, s.Logger)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &subscriber{Subscriber: inner, settings: s, admin: admin}, nil
}

func (s *settings) sarama() *sarama.Config {
	config := kafka.DefaultSaramaSubscriberConfig()
	config.ClientID = s.clientID
	// What is newer in the protocol is not needed, and Kafka 4 still speaks this.
	config.Version = sarama.V2_3_0_0
	config.Metadata.AllowAutoTopicCreation = s.createTopics
	config.Consumer.Offsets.Initial = sarama.OffsetNewest
	if s.fromOldest {
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = s.tls != nil, s.tls
	if s.sasl != "" {
		config.Net.SASL.Enable, config.Net.SASL.User, config.Net.SASL.Password = true, s.User, s.Password
	}
	switch s.sasl {
	case "plain":
		config.Net.SASL.Mechanism = sarama.SASLTypePlaintext
	case "scram-sha-256":
		config.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA256
		config.Net.SASL.SCRAMClientGeneratorFunc = scramWith(sha256.New)
	case "scram-sha-512":
		config.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA512
		config.Net.SASL.SCRAMClientGeneratorFunc = scramWith(sha512.New)
	}
	return config
}

// scramClient is sarama's view of one conversation.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func scramWith(h func() hash.Hash) func() sarama.SCRAMClient {
	return func() sarama.SCRAMClient { return &scramClient{hash: h} }
}

// Begin starts it.
func (c *scramClient) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err != nil {
		return err
	}
	c.conversation = client.NewConversation()
	return nil
}

// Step answers the server.
func (c *scramClient) Step(challenge string) (string, error) { return c.conversation.Step(challenge) }

// Done says that it has ended.
func (c *scramClient) Done() bool { return c.conversation.Done() }
