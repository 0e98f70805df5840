package outbox

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
)

// ForwarderConfig tunes a Forwarder. Its zero value is a good start: change Workers and PublishConcurrency for
// throughput, Retry and OnDead for what should happen to messages that fail, ListenDSN behind a pooler.
type ForwarderConfig struct {
	// Schema names the tables. Defaults to public.outbox.
	Schema Schema

	// Workers is the number of claims in flight. Each holds one connection of the pool while the forwarder runs, so the
	// pool's MaxConns must be at least Workers + 1 (pgxpool's own default is the larger of 4 and the number of CPUs).
	// More than 64 never find a lane. Defaults to 4.
	Workers int
	// BatchSize is the number of rows a claim takes. Smaller batches hold transactions open for less time, larger ones
	// cost less per message. Defaults to 500.
	BatchSize int
	// BatchBytes is the budget of the whole process for payloads, metadata and UUIDs in flight, shared by its workers. A
	// message above a worker's share goes alone, one at a time. Defaults to 32 MiB.
	BatchBytes int
	// PublishConcurrency is the number of publishes in flight of one worker. Messages of one key never are in flight
	// together. It does not matter to a BatchPublisher, which gets BatchSize messages at once. Defaults to 64.
	PublishConcurrency int
	// PublishTimeout ends the wait for one publish, or one batch of a BatchPublisher: it counts as not acknowledged, and a
	// late success becomes a duplicate. Defaults to 10 s.
	PublishTimeout time.Duration
	// PassTimeout is the time after which a pass starts no more publishes and settles what was acknowledged. A pass
	// keeps a transaction open. Defaults to 10 s.
	PassTimeout time.Duration

	// PollInterval is the slowest the adaptive poll gets on an idle table, and so the longest that a message waits when
	// its notification was lost. Defaults to 1 s.
	PollInterval time.Duration
	// ListenDSN is a direct connection for LISTEN, outside the pool; set it when the pool goes through a pooler in
	// transaction mode. Empty: the pool's own settings. A forwarder that hears nothing there logs it, and polls.
	ListenDSN string
	// PollOnly does without LISTEN; the doorbell stays silent.
	PollOnly bool

	// Retry says when a failed message is tried again, and how often.
	Retry RetryPolicy
	// OnDead says what becomes of the later messages of a dead letter's key. Defaults to QuarantineKey.
	OnDead DeadPolicy
	// Classify tells what an error of the publisher means. Errors marked by Permanent are permanent whatever it says.
	// Nil, or FailureUnknown: judged by evidence. It must be safe for concurrent use.
	Classify func(error) FailureKind
	// MaxPerSecond limits the publishes of this forwarder. 0 is unlimited.
	MaxPerSecond float64
	// Middlewares wrap each publish, the first one outermost, as a router's wrap a handler. The message is acknowledged
	// if they return nil and the publisher was called and returned nil; one that returns nil without calling the next
	// is a failure, not a success. TopicFromContext tells the topic. Messages that they return are ignored. With
	// middlewares a BatchPublisher gets one message at a time, by Publish.
	Middlewares []message.HandlerMiddleware
	// Hooks are told what happens; each implements one or more of ClaimHook, PublishHook, SettleHook, DeadLetterHook
	// and WakeHook. They are called synchronously and must be safe for concurrent use.
	Hooks []Hook

	// ScanFromZero makes every claim scan its lanes from the beginning instead of from a proven floor. Always right, but
	// slow while somebody holds a transaction open.
	ScanFromZero bool
	// SweepShare is the share of its time that the forwarder spends on scanning lanes from the beginning and on looking
	// for keys whose failed message somebody deleted by hand; at start it always looks for those. Defaults to 0.01;
	// -1 is none.
	SweepShare float64
	// CloseTimeout is how long a stop waits for publishes in flight. Defaults to 30 s.
	CloseTimeout time.Duration
}

// Validate reports everything wrong with the config, each problem with its field.
func (c ForwarderConfig) Validate() error {
	c = c.withDefaults()
	problems := []error{
		c.Schema.Validate(),
		positive("Workers", c.Workers),
		positive("BatchSize", c.BatchSize),
		positive("BatchBytes", c.BatchBytes),
		positive("PublishConcurrency", c.PublishConcurrency),
		positive("PublishTimeout", c.PublishTimeout),
		positive("PassTimeout", c.PassTimeout),
		positive("PollInterval", c.PollInterval),
		positive("CloseTimeout", c.CloseTimeout),
		c.Retry.validate(),
		validateHooks(c.Hooks),
	}
	if c.Workers > claim.Lanes {
		problems = append(problems, fmt.Errorf("outbox: Workers: %d must be at most %d, the number of lanes", c.Workers, claim.Lanes))
	}
	if c.BatchSize > math.MaxInt32/64 {
		problems = append(problems, fmt.Errorf("outbox: BatchSize: %d must be at most %d", c.BatchSize, math.MaxInt32/64))
	}
	if c.OnDead != QuarantineKey && c.OnDead != ContinueKey {
		problems = append(problems, fmt.Errorf("outbox: OnDead: %d is neither QuarantineKey nor ContinueKey", c.OnDead))
	}
	if !(c.MaxPerSecond >= 0) || math.IsInf(c.MaxPerSecond, 0) {
		problems = append(problems, fmt.Errorf("outbox: MaxPerSecond: %v must be positive, or 0 for unlimited", c.MaxPerSecond))
	}
	if !(c.SweepShare > 0 && c.SweepShare <= 1) && c.SweepShare != -1 {
		problems = append(problems, fmt.Errorf("outbox: SweepShare: %v must be above 0 and at most 1, or -1 for none", c.SweepShare))
	}
	if c.PollOnly && c.ListenDSN != "" {
		problems = append(problems, errors.New("outbox: ListenDSN: it is set, but PollOnly does without LISTEN; set one of them"))
	}
	for i, m := range c.Middlewares {
		if m == nil {
			problems = append(problems, fmt.Errorf("outbox: Middlewares[%d]: it is nil", i))
		}
	}
	return errors.Join(problems...)
}

func (c ForwarderConfig) withDefaults() ForwarderConfig {
	c.Schema = c.Schema.withDefaults()
	c.Workers = orDefault(c.Workers, 4)
	c.BatchSize = orDefault(c.BatchSize, 500)
	c.BatchBytes = orDefault(c.BatchBytes, 32<<20)
	c.PublishConcurrency = orDefault(c.PublishConcurrency, 64)
	c.PublishTimeout = orDefault(c.PublishTimeout, 10*time.Second)
	c.PassTimeout = orDefault(c.PassTimeout, 10*time.Second)
	c.PollInterval = orDefault(c.PollInterval, time.Second)
	c.Retry = c.Retry.withDefaults()
	c.SweepShare = orDefault(c.SweepShare, 0.01)
	c.CloseTimeout = orDefault(c.CloseTimeout, 30*time.Second)
	return c
}

type number interface {
	~int | ~int64 | ~float64
}

func orDefault[T number](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

func positive[T number](field string, value T) error {
	if value > 0 {
		return nil
	}
	return fmt.Errorf("outbox: %s: %v must be positive, or 0 for the default", field, value)
}
