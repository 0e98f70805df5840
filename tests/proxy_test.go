package tests

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// Streams of a connection.
const (
	toServer   = "upstream"
	fromServer = "downstream"
)

// proxy stands between a forwarder and the server.
type proxy struct {
	*toxiproxy.Proxy
	url string // of the database, through the proxy
}

// newProxy puts a proxy before the server of a database.
func newProxy(t testing.TB, databaseURL string) *proxy {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := &proxy{Proxy: toxiproxy.NewProxy(server, "postgres", "127.0.0.1:0", u.Host)}
	require.NoError(t, p.Start())
	t.Cleanup(p.Stop)
	u.Host = p.Listen
	p.url = u.String()
	return p
}

// loseAnswers lets the server do what it is told, and closes the connection in place of its answer.
func (p *proxy) loseAnswers(t testing.TB) (heal func()) {
	t.Helper()
	return p.add(t, "limit_data", fromServer, `{"bytes": 0}`)
}

// swallow drops all that is sent in a direction, and closes nothing until it is healed: then all connections are, as
// when a network that has come back knows nothing of them. The signal says that something was dropped.
func (p *proxy) swallow(t testing.TB, stream string) (dropped <-chan struct{}, heal func()) {
	t.Helper()
	id := lastHole.Add(1)
	hole := make(chan struct{})
	holes.Store(id, sync.OnceFunc(func() { close(hole) }))
	return hole, p.add(t, swallowKind, stream, fmt.Sprintf(`{"id": %d}`, id))
}

func (p *proxy) add(t testing.TB, kind, stream, attributes string) (remove func()) {
	t.Helper()
	toxic, err := p.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type": %q, "stream": %q, "attributes": %s}`, kind, stream, attributes)))
	require.NoError(t, err)
	return func() { require.NoError(t, p.Toxics.RemoveToxic(t.Context(), toxic.Name)) }
}

const swallowKind = "swallow"

// holes are what to call when a swallower drops something: toxiproxy makes them from their attributes.
var (
	holes    sync.Map
	lastHole atomic.Int64
)

// swallower is toxiproxy's timeout without end, which also tells that it has dropped something. TestMain registers it.
type swallower struct {
	ID int64 `json:"id"`
}

// Pipe drops everything.
func (s *swallower) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if dropped, ok := holes.Load(s.ID); ok {
				dropped.(func())() //nolint:forcetypeassert // nothing else is stored
			}
		}
	}
}

// Cleanup closes the connection: what was dropped can't be made up for.
func (s *swallower) Cleanup(stub *toxics.ToxicStub) { stub.Close() }
