package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/crew"
)

// Driver opens RabbitMQ; see the package's documentation for its URL.
type Driver struct{}

// Schemes gives amqp and, with TLS, amqps.
func (Driver) Schemes() []string { return []string{"amqp", "amqps"} }

// settings are what the URL says.
type settings struct {
	addresses      []string
	vhost          string
	user, password string
	tls            *tls.Config
	groups         []string
	drop           bool // what is unrouted
	queueType      string
	single         bool
	prefetch       int
	nackDelay      time.Duration
	timeout        time.Duration
}

// Open connects when it is used first.
func (Driver) Open(_ context.Context, url *broker.URL, options broker.Options) (broker.Broker, error) {
	s, err := read(url)
	if err != nil {
		return nil, err
	}
	s.user, s.password = options.User, options.Password
	if s.user == "" {
		s.user, s.password = "guest", cmp.Or(s.password, "guest")
	}
	// Apart, because a server that is short of memory stops reading from those who publish, and acks must go on.
	publishing, subscribing := &link{settings: s, purpose: "publisher"}, &link{settings: s, purpose: "subscriber"}
	return &opened{
		settings: s, options: options, subscribing: subscribing,
		publisher: &publisher{settings: s, link: publishing},
	}, nil
}

func read(url *broker.URL) (settings, error) {
	params := url.Params()
	port := "5672"
	s := settings{
		vhost:     cmp.Or(url.Path, "/"),
		tls:       params.TLS(url.Scheme == "amqps"),
		drop:      params.OneOf("unrouted", "error", "error", "drop") == "drop",
		queueType: params.OneOf("queue_type", "", "classic", "quorum"),
		single:    params.Bool("single", false),
		prefetch:  params.Int("prefetch", 1, 1),
		nackDelay: params.Duration("nack_delay", 100*time.Millisecond),
		timeout:   params.Duration("timeout", 5*time.Second),
	}
	if groups := params.String("groups", ""); groups != "" {
		s.groups = strings.Split(groups, ",")
	}
	if s.tls != nil {
		port = "5671"
	}
	problems := []error{params.Err()}
	var err error
	s.addresses, err = url.Addresses(port)
	problems = append(problems, err)
	if s.prefetch > maxPrefetch {
		problems = append(problems, &broker.URLError{Part: "prefetch", Reason: fmt.Sprintf("it must be at most %d", maxPrefetch)})
	}
	return s, errors.Join(problems...)
}

// maxPrefetch is what AMQP has bits for.
const maxPrefetch = 1<<16 - 1

// opened is a broker.Broker.
type opened struct {
	settings
	options     broker.Options
	publisher   *publisher
	subscribing *link
	subscribers crew.Subscribers
	once        sync.Once
	err         error
}

func (b *opened) Publisher() message.Publisher { return b.publisher }

func (b *opened) Subscriber() (message.Subscriber, error) {
	return b.subscribers.Join(b.options.Group, func() (message.Subscriber, error) {
		return newSubscriber(b.subscribing, b.settings, b.options), nil
	})
}

func (b *opened) Ping(ctx context.Context) error {
	live, err := b.publisher.link.get(ctx)
	if err != nil {
		return err
	}
	return live.refusal()
}

func (b *opened) Close() error {
	b.once.Do(func() {
		b.err = errors.Join(b.subscribers.Close(), b.publisher.Close(), b.subscribing.close())
	})
	return b.err
}
