package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/crew"
)

// maxSubscriptions bounds the connections of a broker's subscribers: each subscription holds one while it waits.
const maxSubscriptions = 1000

// Driver opens Redis; see the package's documentation for its URL.
type Driver struct{}

// Schemes gives redis and, with TLS, rediss.
func (Driver) Schemes() []string { return []string{"redis", "rediss"} }

// settings are what the URL says.
type settings struct {
	address       string
	db            int
	tls           *tls.Config
	maxlen        int64
	replicas      int
	timeout       time.Duration
	maxIdle       time.Duration
	claimInterval time.Duration
	nackDelay     time.Duration
}

// Open connects when it is used first.
func (Driver) Open(_ context.Context, url *broker.URL, options broker.Options) (broker.Broker, error) {
	s, err := read(url)
	if err != nil {
		return nil, err
	}
	connect := func(connections int) *redis.Client {
		return redis.NewClient(&redis.Options{
			Addr: s.address, Username: options.User, Password: options.Password, DB: s.db, TLSConfig: s.tls,
			DialTimeout: s.timeout, ReadTimeout: s.timeout, WriteTimeout: s.timeout, ContextTimeoutEnabled: true,
			MaxRetries: -1, // whoever publishes tries again, and knows that he does
			PoolSize:   connections,
		})
	}
	b := &opened{settings: s, options: options, publishing: connect(publishConnections), subscribing: connect(maxSubscriptions)}
	b.publisher = &publisher{client: b.publishing, settings: s}
	return b, nil
}

func read(url *broker.URL) (settings, error) {
	params := url.Params()
	s := settings{
		tls:           params.TLS(url.Scheme == "rediss"),
		maxlen:        int64(params.Int("maxlen", 0, 0)),
		replicas:      params.Int("replicas", 0, 0),
		timeout:       params.Duration("timeout", 5*time.Second),
		maxIdle:       params.Duration("max_idle", 30*time.Second),
		claimInterval: params.Duration("claim_interval", 5*time.Second),
		nackDelay:     params.Duration("nack_delay", 100*time.Millisecond),
	}
	problems := []error{params.Err()}
	addresses, err := url.Addresses("6379")
	problems = append(problems, err)
	switch {
	case len(addresses) == 1:
		s.address = addresses[0]
	case len(addresses) > 1:
		problems = append(problems, &broker.URLError{Part: "host", Reason: "there must be one, that of the primary"})
	}
	if url.Path != "" {
		s.db, err = strconv.Atoi(url.Path)
		if err != nil || s.db < 0 {
			problems = append(problems, &broker.URLError{Part: "path", Reason: fmt.Sprintf("%q must be the number of a database, as /0", url.Path)})
		}
	}
	return s, errors.Join(problems...)
}

// opened is a broker.Broker.
type opened struct {
	settings
	options                 broker.Options
	publishing, subscribing *redis.Client
	publisher               *publisher
	subscribers             crew.Subscribers
	once                    sync.Once
	err                     error
}

func (b *opened) Publisher() message.Publisher { return b.publisher }

func (b *opened) Subscriber() (message.Subscriber, error) {
	return b.subscribers.Join(b.options.Group, func() (message.Subscriber, error) {
		return newSubscriber(b.subscribing, b.settings, b.options), nil
	})
}

func (b *opened) Ping(ctx context.Context) error {
	if err := b.publishing.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis: ping: %w", closedAs(err))
	}
	return nil
}

func (b *opened) Close() error {
	b.once.Do(func() {
		b.err = errors.Join(b.subscribers.Close(), b.publisher.Close(), b.subscribing.Close())
	})
	return b.err
}

// closedAs turns the client's own errors after Close into the one that is documented: nobody else closes our end of a
// connection that is in use.
func closedAs(err error) error {
	if errors.Is(err, redis.ErrClosed) || errors.Is(err, net.ErrClosed) {
		return broker.ErrClosed
	}
	return err
}
