package nats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/all"
)

func TestEverythingWrongWithAURLIsToldAtOnce(t *testing.T) {
	for url, want := range map[string][]string{
		"nats://localhost/path":                       {"path: a NATS URL has none"},
		"nats://:4222":                                {"host:"},
		"nats://localhost?ack_wait=1&replicas=0":      {"ack_wait:", "replicas:"},
		"nats://localhost?auto_provison=false":        {"auto_provison: there is no such parameter"},
		"nats://localhost?credentials=/none/there":    {"credentials: it must be a readable file"},
		"nats://localhost?max_age=1m&nack_delay=soon": {"max_age: it must not be less than duplicate_window", "nack_delay:"},
		"nats+tls://localhost?tls_ca=/none/there":     {"tls_ca:"},
	} {
		_, err := all.Open(t.Context(), url, broker.Options{})
		for _, text := range want {
			require.ErrorContains(t, err, text, url)
		}
	}
	b, err := all.Open(t.Context(), "nats+tls://user:s3cret@one,two:4223?max_age=2m", broker.Options{})
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
}
