package sql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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
	config         *pgxpool.Config
	tables         tables
	createTopics   bool
	pollInterval   time.Duration
	resendInterval time.Duration
	ackDeadline    time.Duration
	batchSize      int
}

// Open makes the pool; it connects when it is used.
func (Driver) Open(ctx context.Context, url *broker.URL, options broker.Options) (broker.Broker, error) {
	s, err := read(url, options)
	if err != nil {
		return nil, err
	}
	return open(context.WithoutCancel(ctx), s)
}

func read(url *broker.URL, options broker.Options) (*settings, error) {
	s := &settings{Options: options}
	keywords, err := address(url)
	if err != nil {
		return nil, err
	}
	p := url.Params()
	s.tables = tables{schema: p.String("schema", "")}
	s.createTopics = p.Bool("create_topics", true)
	s.pollInterval = p.Duration("poll_interval", 200*time.Millisecond)
	s.resendInterval = p.Duration("resend_interval", time.Second)
	s.ackDeadline = p.Duration("ack_deadline", 30*time.Second)
	s.batchSize = p.Int("batch_size", 100, 1)
	conns := p.Int("pool_max_conns", 10, 1)
	keywords["user"], keywords["password"] = options.User, options.Password
	for _, name := range clientParameters {
		keywords[name] = p.String(name, keywords[name])
	}
	keywords["application_name"] = p.String("application_name", "watermill-outbox")
	if err := errors.Join(p.Err(), s.tables.validate()); err != nil {
		return nil, err
	}
	if s.config, err = pgxpool.ParseConfig(dsn(keywords)); err != nil {
		return nil, &broker.URLError{Part: "url", Reason: "PostgreSQL's client can't use it: " + cause(err)}
	}
	s.config.MaxConns = int32(min(conns, 10_000)) //nolint:gosec // it fits
	if s.config.ConnConfig.ConnectTimeout == 0 || s.config.ConnConfig.ConnectTimeout > connectTimeout {
		s.config.ConnConfig.ConnectTimeout = connectTimeout
	}
	return s, nil
}

// connectTimeout is for each host; an outage must be told of while a publish may still last.
const connectTimeout = 5 * time.Second

// clientParameters are passed on to pgx as they are.
var clientParameters = []string{
	"sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "search_path", "default_query_exec_mode",
}

func address(url *broker.URL) (map[string]string, error) {
	addresses, err := url.Addresses("5432")
	if err != nil {
		return nil, err
	}
	hosts, ports := make([]string, len(addresses)), make([]string, len(addresses))
	for i, address := range addresses {
		if hosts[i], ports[i], err = net.SplitHostPort(address); err != nil {
			return nil, &broker.URLError{Part: "host", Reason: "an address must be of the form host:port"}
		}
	}
	return map[string]string{"host": strings.Join(hosts, ","), "port": strings.Join(ports, ","), "dbname": url.Path}, nil
}

// dsn makes a connection string of keywords and values, for net/url can't parse several hosts. What is empty is left to
// the environment.
func dsn(keywords map[string]string) string {
	var b strings.Builder
	for name, value := range keywords {
		if value != "" {
			fmt.Fprintf(&b, "%s='%s' ", name, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value))
		}
	}
	return b.String()
}

// cause gives what pgx has against a connection string, without the string.
func cause(err error) string {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		if err = parse.Unwrap(); err == nil {
			return "a value can't be read"
		}
	}
	return err.Error()
}
