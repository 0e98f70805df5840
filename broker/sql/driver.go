package sql

import (
	"context"
	"net"
	neturl "net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Driver opens postgres and postgresql URLs.
type Driver struct{}

// Schemes are postgres and postgresql.
func (Driver) Schemes() []string { return []string{"postgres", "postgresql"} }

// settings are what a URL says.
type settings struct {
	broker.Options
	pool           *pgxpool.Config
	autoInitialize bool
	pollInterval   time.Duration
	ackDeadline    time.Duration
}

// Open makes the pool, which connects when it is used.
func (Driver) Open(_ context.Context, url *broker.URL, options broker.Options) (broker.Broker, error) {
	s, err := read(url, options)
	if err != nil {
		return nil, err
	}
	return open(s)
}

func read(url *broker.URL, options broker.Options) (s settings, err error) {
	p := url.Params()
	s.Options = options
	s.autoInitialize = p.Bool("auto_initialize", true)
	s.pollInterval = p.Duration("poll_interval", 100*time.Millisecond)
	s.ackDeadline = p.Duration("ack_deadline", 30*time.Second)
	rest := p.Rest()
	if err := p.Err(); err != nil {
		return s, err
	}
	if password := rest.Get("password"); password != "" && s.Password == "" {
		s.Password = password
	}
	rest.Del("password") // it is set below: pgx's errors have the connection string
	if len(url.Hosts) > 0 {
		hosts, ports, err := split(url)
		if err != nil {
			return s, err
		}
		rest.Set("host", hosts)
		rest.Set("port", ports)
	}
	address := neturl.URL{Scheme: "postgres", Path: "/" + url.Path, RawQuery: rest.Encode()}
	if s.User != "" {
		address.User = neturl.User(s.User)
	}
	if s.pool, err = pgxpool.ParseConfig(address.String()); err != nil {
		return s, &broker.URLError{Part: "url", Reason: "pgx refuses it: " + withoutURL(err)}
	}
	if s.Password != "" {
		s.pool.ConnConfig.Password = s.Password
	}
	if s.pool.ConnConfig.RuntimeParams["application_name"] == "" {
		s.pool.ConnConfig.RuntimeParams["application_name"] = "watermill-outbox"
	}
	return s, nil
}

// split gives hosts and ports as libpq's parameters have them.
func split(url *broker.URL) (hosts, ports string, err error) {
	addresses, err := url.Addresses("5432")
	if err != nil {
		return "", "", err
	}
	var h, p []string
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return "", "", &broker.URLError{Part: "host", Reason: "an address must be of the form host:port"}
		}
		h, p = append(h, host), append(p, port)
	}
	return strings.Join(h, ","), strings.Join(p, ","), nil
}

// withoutURL gives what pgx has against a connection string, without the string: it may have an sslpassword.
func withoutURL(err error) string {
	_, reason, found := strings.Cut(err.Error(), "`: ")
	if !found {
		return "it can't be read"
	}
	return reason
}
