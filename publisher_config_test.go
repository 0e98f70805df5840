package outbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

func TestPublisherConfigReportsAllProblems(t *testing.T) {
	t.Parallel()
	config := outbox.PublisherConfig{
		Schema:          outbox.Schema{Name: "a\x00", Table: strings.Repeat("t", 64)},
		MaxPayloadBytes: -2,
		Timeout:         -time.Second,
	}
	_, err := outbox.NewPublisher(nil, config, nil)
	for _, part := range []string{
		"transaction is nil", "Schema.Name", "Schema.Table", "PublisherConfig.MaxPayloadBytes: -2", "PublisherConfig.Timeout: -1s",
	} {
		require.ErrorContains(t, err, part)
	}
	require.Error(t, config.Validate())
	require.ErrorContains(t, outbox.PublisherConfig{MaxPayloadBytes: 256 << 20}.Validate(), "268435456 is not between")
}

func TestPublisherConfigTakesDefaultsAndOff(t *testing.T) {
	t.Parallel()
	require.NoError(t, outbox.PublisherConfig{}.Validate())
	require.NoError(t, outbox.PublisherConfig{MaxPayloadBytes: -1, Timeout: -1}.Validate())
	require.NoError(t, outbox.PublisherConfig{MaxPayloadBytes: 255 << 20, Timeout: time.Nanosecond}.Validate())
}
