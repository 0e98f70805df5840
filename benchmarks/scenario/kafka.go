package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kfake"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/kafka"
)

var kafkaForward = Scenario{
	Name: "kafka",
	About: "Messages that wait in the table, through a Kafka that acknowledges each after all its replicas have it: that of " +
		"$OUTBOX_TEST_KAFKA, host:port, or franz-go's fake one in this process. Our driver, which sends batches; beside it our " +
		"forwarder with watermill-kafka's publisher, idempotent as well, which sends one message at a time, 64 at once a worker; " +
		"and our driver alone, with the same messages from memory, which says what is the broker's. What the topics have " +
		"in the end is read and compared. In alternating order; the median of the rounds.",
	Run: runKafka,
}

// kafkaSpreads has one key, too: the broker keeps the order of what is in flight.
var kafkaSpreads = []spread{{"1,000 keys", 1000, 1}, {"no key", 0, 1}, {"one key", 1, 8}}

func runKafka(ctx context.Context, env *Env) (results []report.Result, err error) {
	addr := os.Getenv("OUTBOX_TEST_KAFKA")
	if addr == "" {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(4))
		if err != nil {
			return nil, fmt.Errorf("kafka: %w", err)
		}
		defer fake.Close()
		addr = fake.ListenAddrs()[0]
	}
	b, err := broker.NewMux(kafka.Driver{}).Open(ctx, "kafka://"+addr, broker.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	single, err := watermillKafka(addr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, single.Close()) }()
	batches, ok := b.Publisher().(outbox.BatchPublisher)
	if !ok {
		return nil, errors.New("kafka: the driver's publisher takes no batches")
	}
	for _, s := range kafkaSpreads {
		side := kafkaSide{env: env, addr: addr, load: measure.Load{Count: env.count(150_000, 2000) / s.part, Keys: s.keys, Size: payloadSize}}
		medians, err := medians(ctx, env,
			func(ctx context.Context) (float64, error) {
				return side.forward(ctx, ourDriver, func(c *kafkaCounter) message.Publisher { return &batchCounter{c, batches} })
			},
			func(ctx context.Context) (float64, error) {
				return side.forward(ctx, "watermill-kafka", func(c *kafkaCounter) message.Publisher { return &singleCounter{c, single} })
			},
			func(ctx context.Context) (float64, error) { return side.alone(ctx, batches) },
		)
		if err != nil {
			return nil, err
		}
		results = append(results,
			report.New("kafka", s.name, "messages/s", medians[0], medians[1], "our forwarder with watermill-kafka's publisher"),
			report.New("kafka", s.name, "messages/s", medians[0], medians[2], "the driver alone, from memory"))
	}
	return results, nil
}

// medians runs every side in each round, in alternating order.
func medians(ctx context.Context, env *Env, sides ...func(context.Context) (float64, error)) ([]float64, error) {
	rates := make([][]float64, len(sides))
	for round := range env.rounds(3) {
		for _, i := range measure.Alternate(len(sides), round) {
			rate, err := sides[i](ctx)
			if err != nil {
				return nil, err
			}
			rates[i] = append(rates[i], rate)
		}
	}
	out := make([]float64, len(sides))
	for i := range rates {
		out[i] = measure.Percentile(rates[i], 50)
	}
	return out, nil
}

// watermillKafka gives watermill-kafka's publisher, as safe as the driver's: after all replicas, without copies.
func watermillKafka(addr string) (message.Publisher, error) {
	config := wkafka.DefaultSaramaSyncPublisherConfig()
	config.Version = sarama.V2_3_0_0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Compression = sarama.CompressionSnappy
	publisher, err := wkafka.NewPublisher(wkafka.PublisherConfig{Brokers: []string{addr}, Marshaler: keyed{}, OverwriteSaramaConfig: config}, nil)
	if err != nil {
		return nil, fmt.Errorf("watermill-kafka: %w", err)
	}
	return publisher, nil
}

// keyed gives the key to Kafka, and none when there is none.
type keyed struct{ wkafka.DefaultMarshaler }

// Marshal adds the key.
func (k keyed) Marshal(topic string, msg *message.Message) (*sarama.ProducerMessage, error) {
	record, err := k.DefaultMarshaler.Marshal(topic, msg)
	if key := outbox.Key(msg); err == nil && key != "" {
		record.Key = sarama.StringEncoder(key)
	}
	return record, err
}

// kafkaSide runs one load against one Kafka.
type kafkaSide struct {
	env  *Env
	addr string
	load measure.Load
}

// forward is from a standing start to the last acknowledgement.
func (s *kafkaSide) forward(ctx context.Context, label string, wrap func(*kafkaCounter) message.Publisher) (rate float64, err error) {
	r, err := relay.NewOurs(relay.Fresh(s.env.Pool), label, outbox.ForwarderConfig{})
	if err != nil {
		return 0, err
	}
	defer drop(ctx, r, &err)
	if err := s.env.prepare(ctx, r, s.load); err != nil {
		return 0, err
	}
	topic, err := newKafkaTopic(ctx, s.addr)
	if err != nil {
		return 0, err
	}
	counter := &kafkaCounter{topic: topic, Counter: measure.NewCounter(s.load.Count)}
	began := time.Now()
	run := start(ctx, r, wrap(counter))
	defer run.cancel()
	if err := run.wait(ctx, counter.Reached()); err != nil {
		return 0, err
	}
	rate = float64(s.load.Count) / time.Since(began).Seconds()
	if err := errors.Join(s.env.settled(ctx, r), run.stop()); err != nil {
		return 0, err
	}
	s.env.Progress("%s, %d keys: %.0f messages/s", r.Name(), s.load.Keys, rate)
	err = s.check(ctx, topic)
	if label != ourDriver && err != nil { // a fault of the rival's is told, and is no fault of the measurement
		s.env.Progress("%s: %v", r.Name(), err)
		err = nil
	}
	return rate, err
}

// ourDriver is the label of the side that is broker/kafka.
const ourDriver = "driver"

// alone publishes the same messages from memory, as the forwarder's workers would.
func (s *kafkaSide) alone(ctx context.Context, publisher outbox.BatchPublisher) (float64, error) {
	topic, err := newKafkaTopic(ctx, s.addr)
	if err != nil {
		return 0, err
	}
	workers := limitWorkers
	if s.load.Keys == 1 {
		workers = 1 // one key is one worker's, as in the forwarder
	}
	batches := make([][]outbox.Outgoing, workers) // a key always goes to the same worker
	for i := range s.load.Count {
		msg := s.load.Message(ctx, i)
		worker := i % max(1, s.load.Keys) % workers
		if s.load.Keys == 0 {
			worker = i % workers
		}
		batches[worker] = append(batches[worker], outbox.Outgoing{Topic: topic, Key: outbox.Key(msg), Message: msg})
	}
	began := time.Now()
	err = together(workers, func(worker int) error {
		for rest := batches[worker]; len(rest) > 0; rest = rest[min(limitBatch, len(rest)):] {
			if err := errors.Join(publisher.PublishBatch(ctx, rest[:min(limitBatch, len(rest))])...); err != nil {
				return fmt.Errorf("the driver alone: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	rate := float64(s.load.Count) / time.Since(began).Seconds()
	s.env.Progress("the driver alone, %d keys: %.0f messages/s", s.load.Keys, rate)
	return rate, s.check(ctx, topic)
}

// check reads the topic: everything is there once, the messages of a key in their order.
func (s *kafkaSide) check(ctx context.Context, topic string) error {
	ledger := measure.NewLedger(s.load.Count, s.load.Keys)
	ledger.Restart()
	if err := readKafkaTopic(ctx, s.addr, topic, s.load.Count, ledger); err != nil {
		return err
	}
	if err := ledger.Seen().Compare(s.load.Expected(ctx)).Err(); err != nil {
		return fmt.Errorf("topic %s: %w", strings.TrimSpace(topic), err)
	}
	return nil
}
