package nats_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/nats"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
)

// restartable is a server of a test's own, which keeps its address and its data.
type restartable struct {
	url               string
	start, stop, kill func()
}

// newRestartable gives a real server where there is one, else one in this process, that can't be killed but stopped. It runs.
func newRestartable(t *testing.T) *restartable {
	t.Helper()
	if controlled, ok := services.Control(t, "nats"); ok {
		return &restartable{
			url:   controlled.Address,
			start: func() { require.NoError(t, controlled.Start()) },
			stop:  func() { require.NoError(t, controlled.Stop()) },
			kill:  func() { require.NoError(t, controlled.Kill()) },
		}
	}
	options := &server.Options{JetStream: true, StoreDir: t.TempDir()}
	nats := serve(t, options)
	port := nats.Addr().(*net.TCPAddr).Port
	stop := func() {
		nats.Shutdown()
		nats.WaitForShutdown()
	}
	return &restartable{
		url:   nats.ClientURL(),
		start: func() { nats = serve(t, &server.Options{JetStream: true, StoreDir: options.StoreDir, Port: port}) },
		stop:  stop, kill: stop,
	}
}

// serve runs a server in this process until the test ends.
func serve(t *testing.T, options *server.Options) *server.Server {
	t.Helper()
	options.Host, options.NoLog, options.NoSigs = "127.0.0.1", true, true
	if options.Port == 0 {
		options.Port = server.RANDOM_PORT
	}
	nats, err := server.NewServer(options)
	require.NoError(t, err)
	nats.Start()
	t.Cleanup(func() {
		nats.Shutdown()
		nats.WaitForShutdown()
	})
	require.True(t, nats.ReadyForConnections(patience))
	return nats
}

// with gives a server's URL with a user.
func with(nats *server.Server, user string) string {
	return fmt.Sprintf("nats://%s@%s", user, nats.Addr())
}

// silent gives an address that takes connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l.Addr().String()
}

func within(t *testing.T, f func() bool) {
	t.Helper()
	require.Eventually(t, f, patience, tick)
}

func TestTLS(t *testing.T) {
	a := brokertest.NewAuthority(t)
	address := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), TLSConfig: a.Server(t)}).Addr()
	brokertest.SpeaksTLS(t, nats.Driver{}, "nats+tls://"+address.String(), a, "")
}
