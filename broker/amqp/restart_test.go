package amqp_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
)

// Publisher and subscription outlive a server that is stopped, killed and started again, and so do messages.
func TestRestartOfTheServer(t *testing.T) {
	server, isReal := services.Control(t, "rabbitmq")
	if !isReal {
		return // and nothing that could stand in for it
	}
	b := open(t, server.Address+"?groups=later", "g")
	_, messages := subscribe(t, b, "t")
	require.NoError(t, batch(t, b, outgoing("t", "k", "0"))[0])
	require.Equal(t, []string{"0"}, receiveAll(t, messages, 1))
	for i, end := range []func() error{server.Stop, server.Kill} {
		payload := string(rune('1' + i))
		require.NoError(t, batch(t, b, outgoing("t", "k", payload))[0])
		held := receive(t, messages)
		require.NoError(t, end())
		err := b.Publisher().Publish("t", message.NewMessage("1", nil))
		require.Equal(t, outbox.FailureOutage, b.Classify(err), err)
		require.Error(t, b.Ping(t.Context()))
		require.True(t, held.Ack(), "too late")
		require.NoError(t, server.Start())
		require.Eventually(t, func() bool { return b.Ping(t.Context()) == nil }, patience, 50*time.Millisecond)
		require.Equal(t, []string{payload}, receiveAll(t, messages, 1), "what was not acknowledged comes again")
	}
	require.NoError(t, batch(t, b, outgoing("t", "k", "3"))[0])
	require.Equal(t, []string{"3"}, receiveAll(t, messages, 1))
	_, messages = subscribe(t, open(t, server.Address, "later"), "t")
	require.Equal(t, []string{"0", "1", "2", "3"}, receiveAll(t, messages, 4))
}
