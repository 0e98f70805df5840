package kafka_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
)

// A topic is deleted and made again while clients hold on to what it was: the publisher goes on by itself, one message at a
// time or many, and no message pays for it.
func TestATopicThatWasDeletedAndMadeAgainIsPublishedTo(t *testing.T) {
	addr, _ := services.Kafka(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	b, name := open(t, addr, "", ""), newTopic(t, addr, nil)
	single := func() error { return b.Publisher().Publish(name, outgoing(name, "", "single").Message) }
	many := func() error { return publishBatch(t, b, outgoing(name, "k", "1"))[0] }
	require.NoError(t, single())
	require.NoError(t, many())

	_, err = admin.DeleteTopic(t.Context(), name)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := admin.CreateTopic(t.Context(), 4, 1, nil, name)
		return err == nil
	}, patience, 100*time.Millisecond)
	for _, publish := range []func() error{many, single} {
		require.Eventually(t, func() bool {
			err := publish()
			require.NotEqual(t, outbox.FailurePermanent, b.Classify(err), "%v", err)
			return err == nil
		}, patience, 100*time.Millisecond)
	}
}
