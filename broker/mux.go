package broker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/ThreeDotsLabs/watermill"
)

// Mux opens brokers by the scheme of their URL. It is safe for concurrent use.
type Mux struct{ drivers map[string]Driver }

// NewMux makes one of drivers. It panics if two of them want the same scheme, which is a mistake in the program.
func NewMux(drivers ...Driver) *Mux {
	m := &Mux{drivers: map[string]Driver{}}
	for _, driver := range drivers {
		for _, scheme := range driver.Schemes() {
			if m.drivers[scheme] != nil {
				panic(fmt.Sprintf("broker: two drivers for %q URLs", scheme))
			}
			m.drivers[scheme] = driver
		}
	}
	return m
}

// Schemes gives the known ones, in order.
func (m *Mux) Schemes() []string {
	schemes := make([]string, 0, len(m.drivers))
	for scheme := range m.drivers {
		schemes = append(schemes, scheme)
	}
	slices.Sort(schemes)
	return schemes
}

// Open opens the broker that a URL names. It does not wait for the broker. Everything wrong with the URL is told at once, as
// a *SchemeError or as *URLErrors, joined.
func (m *Mux) Open(ctx context.Context, rawURL string, options Options) (Broker, error) {
	url, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	driver := m.drivers[url.Scheme]
	if driver == nil {
		return nil, &SchemeError{Scheme: url.Scheme, Known: m.Schemes()}
	}
	if url.User != "" {
		options.User = url.User
	}
	if url.Password != "" {
		options.Password = url.Password
	}
	options.User = cmp.Or(options.User, os.Getenv("BROKER_USER"))
	options.Password = cmp.Or(options.Password, os.Getenv("BROKER_PASSWORD"))
	if options.Logger == nil {
		options.Logger = watermill.NopLogger{}
	}
	return driver.Open(ctx, url, options)
}
