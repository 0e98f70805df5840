package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/fresh"
)

const (
	publishConnections = 64
	// maxValue is the server's default proto-max-bulk-len. It answers a longer value by closing the connection, which
	// looks like an outage.
	maxValue = 512 << 20
)

var (
	errTooLarge = fmt.Errorf("a value of more than %d bytes, which a server does not take", maxValue)
	errReplicas = errors.New("too few replicas have it in time")
	errNoAnswer = errors.New("the server did not answer")
)

// publisher is an outbox.BatchPublisher. It is safe for concurrent use.
type publisher struct {
	client *redis.Client
	settings
	once sync.Once
}

// Publish adds one message after the other, and stops at the first error.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		ctx, cancel := fresh.Context(msg.Context())
		err := p.PublishBatch(ctx, []outbox.Outgoing{{Topic: topic, Message: msg}})[0]
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// Close lets what is in flight fail with broker.ErrClosed.
func (p *publisher) Close() (err error) {
	p.once.Do(func() { err = p.client.Close() })
	return err
}

// PublishBatch sends a batch in one round trip where that keeps its contract; see cutter for when it does.
func (p *publisher) PublishBatch(ctx context.Context, batch []outbox.Outgoing) []error {
	c := newCutter(batch)
	entries := make([]*redis.XAddArgs, len(batch))
	for i := range batch {
		entries[i], c.refused[i] = p.entry(&batch[i])
	}
	for wave := c.next(); len(wave) > 0; wave = c.next() {
		args := make([]*redis.XAddArgs, len(wave))
		for n, i := range wave {
			args[n] = entries[i]
		}
		errs := p.roundTrip(ctx, args, c.transaction)
		if c.transaction && aborted(errs) {
			c.alone()
			continue
		}
		for n, i := range wave {
			if errs[n] != nil {
				errs[n] = fmt.Errorf("redis: publishing to %q: %w", batch[i].Topic, closedAs(errs[n]))
			}
		}
		c.settle(errs)
	}
	return c.verdicts
}

// entry is a message as watermill-redisstream writes it.
func (p *publisher) entry(out *outbox.Outgoing) (*redis.XAddArgs, error) {
	values, err := redisstream.DefaultMarshallerUnmarshaller{}.Marshal(out.Topic, out.Message)
	for _, value := range values {
		if bytes, ok := value.([]byte); ok && len(bytes) > maxValue {
			err = errTooLarge
		}
	}
	if err != nil {
		return nil, outbox.Permanent(fmt.Errorf("redis: publishing to %q: %w", out.Topic, err))
	}
	return &redis.XAddArgs{Stream: out.Topic, Values: values, MaxLen: p.maxlen, Approx: p.maxlen > 0}, nil
}

// aborted says that the server has refused a transaction before it began with it.
func aborted(errs []error) bool { return len(errs) > 0 && redis.HasErrorPrefix(errs[0], "EXECABORT") }

// roundTrip adds entries, as a transaction or each for itself, and returns soon after ctx is done. The client alone would go
// on to wait for the server.
func (p *publisher) roundTrip(ctx context.Context, entries []*redis.XAddArgs, transaction bool) []error {
	if ctx.Done() == nil {
		return p.add(ctx, entries, transaction)
	}
	answer := make(chan []error, 1)
	go func() { answer <- p.add(ctx, entries, transaction) }()
	select {
	case errs := <-answer:
		return errs
	case <-ctx.Done():
		return each(len(entries), context.Cause(ctx))
	}
}

func (p *publisher) add(ctx context.Context, entries []*redis.XAddArgs, transaction bool) []error {
	if p.replicas == 0 {
		if transaction {
			return add(ctx, p.client.TxPipeline(), entries)
		}
		return add(ctx, p.client.Pipeline(), entries)
	}
	conn := p.client.Conn() // WAIT is about what its own connection has written
	defer func() { _ = conn.Close() }()
	pipeline := conn.Pipeline()
	if transaction {
		pipeline = conn.TxPipeline()
	}
	errs := add(ctx, pipeline, entries)
	have, err := conn.Wait(ctx, p.replicas, p.timeout).Result()
	if err == nil && have < int64(p.replicas) {
		err = errReplicas
	}
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

func add(ctx context.Context, pipeline redis.Pipeliner, entries []*redis.XAddArgs) []error {
	commands := make([]*redis.StringCmd, len(entries))
	for i, entry := range entries {
		commands[i] = pipeline.XAdd(ctx, entry)
	}
	_, err := pipeline.Exec(ctx)
	errs := make([]error, len(entries))
	for i, command := range commands {
		switch id, failure := command.Result(); {
		case failure != nil:
			errs[i] = failure
		case id == "" && err != nil:
			errs[i] = err
		case id == "":
			errs[i] = errNoAnswer
		}
	}
	return errs
}

func each(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
