package nats_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/nats"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func requireOutage(t *testing.T, b broker.Broker, topic string) {
	t.Helper()
	verdicts := publishBatch(t, b, outgoing(topic, "k", "down"), outgoing(topic, "k", "down"))
	require.Equal(t, outbox.FailureOutage, b.Classify(verdicts[0]), verdicts[0])
	require.ErrorIs(t, verdicts[1], outbox.ErrHeldBack)
	err := b.Publisher().Publish(topic, outgoing(topic, "", "down").Message)
	require.Equal(t, outbox.FailureOutage, b.Classify(err), err)
}

func TestAServerThatComesAndGoes(t *testing.T) {
	nats := newRestartable(t)
	nats.stop()
	b, topic := open(t, nats.url, "", "group"), testdb.Random("restart-")
	requireOutage(t, b, topic)
	require.Error(t, b.Ping(t.Context()))
	subscriber, err := b.Subscriber()
	require.NoError(t, err)
	_, err = subscriber.Subscribe(t.Context(), topic)
	require.Equal(t, outbox.FailureOutage, b.Classify(err), err)

	nats.start()
	require.NoError(t, b.Ping(t.Context()))
	require.NoError(t, publishBatch(t, b, outgoing(topic, "k", "1"))[0])
	messages, err := subscriber.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	inHand := receive(t, messages)
	for round, end := range []func(){nats.stop, nats.kill} {
		end()
		within(t, func() bool { return b.Ping(t.Context()) != nil })
		requireOutage(t, b, topic)
		nats.start()
		require.NoError(t, b.Ping(t.Context()), "at once, whatever the connection that was lost waits for")
		payload := []string{"2", "3"}[round]
		within(t, func() bool { return b.Publisher().Publish(topic, outgoing(topic, "k", payload).Message) == nil })
		inHand.Ack() // to the new server; one that was killed does not always remember that it was given
		inHand = receive(t, messages)
		for string(inHand.Payload) < payload {
			inHand.Ack()
			inHand = receive(t, messages)
		}
		require.Equal(t, payload, string(inHand.Payload), "the subscription is the one of before")
	}
}

// A batch is on its way when the server goes, which may have stored it: published again, each is there once.
func TestWhatWasInFlightIsThereOnce(t *testing.T) {
	nats := newRestartable(t)
	b, topic := open(t, nats.url, "", ""), testdb.Random("flight-")
	require.NoError(t, publishBatch(t, b, outgoing(topic, "", "first"))[0])
	batch := make([]outbox.Outgoing, 2000)
	for i := range batch {
		batch[i] = outgoing(topic, "", "x")
	}
	stream, err := client(t, nats.url).Stream(t.Context(), topic)
	require.NoError(t, err)
	done := make(chan []error)
	go func() { done <- publishBatch(t, b, batch...) }()
	require.Eventually(t, func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs > 1
	}, patience, time.Millisecond)
	nats.kill()
	failed := 0
	for _, err := range <-done {
		if err != nil {
			failed++
			require.Equal(t, outbox.FailureOutage, b.Classify(err), err)
		}
	}
	t.Log(failed, "have failed")
	nats.start()
	within(t, func() bool {
		for _, err := range publishBatch(t, b, batch...) {
			if err != nil {
				return false
			}
		}
		return true
	})
	stream, err = client(t, nats.url).Stream(t.Context(), topic)
	require.NoError(t, err)
	require.Equal(t, uint64(2001), stream.CachedInfo().State.Msgs)
}

func TestNobodyListensOrAnswers(t *testing.T) {
	for name, address := range map[string]string{"closed": brokertest.ClosedPort(t), "silent": silent(t)} {
		logger := watermill.NewCaptureLogger()
		b, err := broker.NewMux(nats.Driver{}).Open(t.Context(), "nats://user:s3cret@"+address, broker.Options{Logger: logger})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		verdicts := b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, []outbox.Outgoing{outgoing("topic", "", "x")})
		require.Equal(t, outbox.FailureOutage, b.Classify(verdicts[0]), name)
		require.Error(t, b.Ping(ctx))
		cancel()
		require.NotContains(t, verdicts[0].Error(), "s3cret")
		require.NoError(t, b.Close())
		requireNoSecret(t, logger)
	}
}

func TestAPasswordThatIsPutRight(t *testing.T) {
	users := func(password string) *server.Options {
		return &server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{{Username: "user", Password: password}}}
	}
	wrong := serve(t, users("another"))
	logger := watermill.NewCaptureLogger()
	b, err := broker.NewMux(nats.Driver{}).Open(t.Context(), with(wrong, "user:s3cret"), broker.Options{Logger: logger})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	topic := testdb.Random("password-")
	requireOutage(t, b, topic)
	require.ErrorContains(t, b.Ping(t.Context()), "Authorization")
	require.NotContains(t, b.Ping(t.Context()).Error(), "s3cret")

	port := wrong.Addr().(*net.TCPAddr).Port
	wrong.Shutdown()
	wrong.WaitForShutdown()
	right := users("s3cret")
	right.Port = port
	serve(t, right)
	within(t, func() bool { return publishBatch(t, b, outgoing(topic, "", "x"))[0] == nil })

	requireNoSecret(t, logger)
}

func TestATokenIsAUserWithoutAPassword(t *testing.T) {
	server := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), Authorization: "s3cret"})
	require.NoError(t, publishBatch(t, open(t, with(server, "s3cret"), "", ""), outgoing("topic", "", "x"))[0])
	requireOutage(t, open(t, with(server, "another"), "", ""), "topic")
}

func TestPermissions(t *testing.T) {
	may := func(subjects ...string) *server.Permissions {
		return &server.Permissions{Publish: &server.SubjectPermission{Allow: subjects}}
	}
	nats := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{
		{Username: "admin", Password: "x"},
		{Username: "publisher", Password: "x", Permissions: may("open", "absent")},
		{Username: "asker", Password: "x", Permissions: may("open", "$JS.API.STREAM.NAMES")},
	}})
	for _, topic := range []string{"open", "closed"} {
		_, err := client(t, with(nats, "admin:x")).CreateStream(t.Context(), jetstream.StreamConfig{Name: topic, Subjects: []string{topic}})
		require.NoError(t, err)
	}
	b := open(t, with(nats, "publisher:x"), "", "")
	require.NoError(t, b.Ping(t.Context()))
	verdicts := publishBatch(t, b,
		outgoing("open", "a", "1"), outgoing("closed", "a", "2"), outgoing("open", "a", "3"), outgoing("open", "", "4"), outgoing("absent", "", "5"))
	require.NoError(t, verdicts[0])
	requireDenied(t, b, verdicts[1], "closed")
	require.ErrorIs(t, verdicts[2], outbox.ErrHeldBack)
	require.NoError(t, verdicts[3])
	require.ErrorIs(t, verdicts[4], jetstream.ErrNoStreamResponse)
	requireDenied(t, b, b.Publisher().Publish("closed", outgoing("", "", "x").Message), "closed")

	asker := open(t, with(nats, "asker:x"), "", "")
	require.NoError(t, publishBatch(t, asker, outgoing("open", "", "1"))[0])
	requireDenied(t, asker, publishBatch(t, asker, outgoing("absent", "", "1"))[0], "$JS.API.STREAM.CREATE.absent")
}

func requireDenied(t *testing.T, b broker.Broker, err error, subject string) {
	t.Helper()
	var denied *nats.PermissionError
	require.ErrorAs(t, err, &denied)
	require.Equal(t, subject, denied.Subject)
	require.Equal(t, outbox.FailurePermanent, b.Classify(err))
}

func TestAServerWithoutJetStreamAndAStreamThatIsFull(t *testing.T) {
	requireOutage(t, open(t, serve(t, &server.Options{}).ClientURL(), "", ""), "topic")

	url, _ := services.NATS(t)
	topic := testdb.Random("full-")
	_, err := client(t, url).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: topic, Subjects: []string{topic}, MaxMsgs: 1, Discard: jetstream.DiscardNew,
	})
	require.NoError(t, err)
	b := open(t, url, "", "")
	require.NoError(t, publishBatch(t, b, outgoing(topic, "", "x"))[0])
	requireOutage(t, b, topic)
}

func requireNoSecret(t *testing.T, logger *watermill.CaptureLoggerAdapter) {
	t.Helper()
	for _, messages := range logger.Captured() {
		for _, m := range messages {
			require.NotContains(t, m.Msg, "s3cret")
			require.NotContains(t, fmt.Sprint(m.Fields, m.Err), "s3cret")
		}
	}
}
