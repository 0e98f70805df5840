package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	client "github.com/nats-io/nats.go"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/crew"
)

// Driver opens nats and nats+tls URLs.
type Driver struct{}

// Schemes are nats and nats+tls.
func (Driver) Schemes() []string { return []string{"nats", "nats+tls"} }

// settings are what a URL says.
type settings struct {
	broker.Options
	servers         []string
	tls             *tls.Config
	credentials     string // a file; "" for none
	clientName      string
	autoProvision   bool
	replicas        int
	maxAge          time.Duration // zero: for ever
	duplicateWindow time.Duration
	ackWait         time.Duration
	maxAckPending   int
	nackDelay       time.Duration
}

// Open reads the URL; a connection is made when it is needed.
func (Driver) Open(_ context.Context, url *broker.URL, options broker.Options) (broker.Broker, error) {
	s, err := read(url, options)
	if err != nil {
		return nil, err
	}
	return &jetStream{settings: s, publisher: newPublisher(s)}, nil
}

func read(url *broker.URL, options broker.Options) (*settings, error) {
	addresses, err := url.Addresses("4222")
	if err != nil {
		return nil, err
	}
	if url.Path != "" {
		return nil, &broker.URLError{Part: "path", Reason: "a NATS URL has none; topics are named by the messages"}
	}
	s := &settings{Options: options}
	for _, address := range addresses {
		s.servers = append(s.servers, "nats://"+address)
	}
	p := url.Params()
	s.tls = p.TLS(url.Scheme == "nats+tls")
	s.credentials = p.String("credentials", "")
	s.clientName = p.String("client_name", "watermill-outbox")
	s.autoProvision = p.Bool("auto_provision", true)
	s.replicas = p.Int("replicas", 1, 1)
	s.maxAge = p.Duration("max_age", 0)
	s.duplicateWindow = p.Duration("duplicate_window", 2*time.Minute)
	s.ackWait = p.Duration("ack_wait", 30*time.Second)
	s.maxAckPending = p.Int("max_ack_pending", 1, 1)
	s.nackDelay = p.Duration("nack_delay", 100*time.Millisecond)
	if err := errors.Join(p.Err(), s.check()); err != nil {
		return nil, err
	}
	return s, nil
}

// check looks at what the values have to do with each other and with the machine.
func (s *settings) check() error {
	if s.credentials != "" {
		if file, err := os.Open(s.credentials); err != nil {
			return &broker.URLError{Part: "credentials", Reason: "it must be a readable file, as nsc generates it (.creds)"}
		} else if err := file.Close(); err != nil {
			return err
		}
	}
	if s.maxAge > 0 && s.maxAge < s.duplicateWindow {
		return &broker.URLError{Part: "max_age", Reason: "it must not be less than duplicate_window"}
	}
	return nil
}

const (
	// dialTimeout bounds one try to reach one server.
	dialTimeout = 5 * time.Second
	// reconnectWait is between two rounds through the servers.
	reconnectWait = 500 * time.Millisecond
	// pingInterval finds connections that have silently died: after two pings without an answer.
	pingInterval = 20 * time.Second
)

// clientOptions are those of every connection.
func (s *settings) clientOptions() []client.Option {
	opts := []client.Option{
		func(o *client.Options) error { o.Servers = s.servers; return nil },
		client.Name(s.clientName), client.Timeout(dialTimeout), client.PingInterval(pingInterval),
		// It never gives up, not even when it is refused: a password may be put right at the server.
		client.MaxReconnects(-1), client.IgnoreAuthErrorAbort(),
		client.ReconnectWait(reconnectWait), client.ReconnectJitter(reconnectWait/2, reconnectWait/2),
	}
	switch {
	case s.credentials != "":
		opts = append(opts, client.UserCredentials(s.credentials))
	case s.User != "" && s.Password == "":
		opts = append(opts, client.Token(s.User))
	case s.User != "":
		opts = append(opts, client.UserInfo(s.User, s.Password))
	}
	if s.tls != nil {
		opts = append(opts, client.Secure(s.tls))
	}
	return opts
}

// jetStream is the broker.Broker.
type jetStream struct {
	settings    *settings
	publisher   *publisher
	subscribers crew.Subscribers
}

// Publisher gives the one there is.
func (j *jetStream) Publisher() message.Publisher { return j.publisher }

// Classify says what an error of the publisher means.
func (*jetStream) Classify(err error) outbox.FailureKind { return classify(err) }

// Ping asks JetStream for the account.
func (j *jetStream) Ping(ctx context.Context) error { return j.publisher.ping(ctx) }

// Subscriber makes one of Options.Group.
func (j *jetStream) Subscriber() (message.Subscriber, error) {
	return j.subscribers.Join(j.settings.Group, func() (message.Subscriber, error) { return newSubscriber(j.settings), nil })
}

// Close closes the publisher and the subscribers.
func (j *jetStream) Close() error {
	return errors.Join(j.publisher.Close(), j.subscribers.Close())
}
