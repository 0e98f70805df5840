package redis_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/redis"
	"github.com/watermill-outbox/watermill-outbox/internal/services"
)

// onOwnServer runs a test at a real Redis that it may do anything with: not at all where there is none.
func onOwnServer(t *testing.T, test func(t *testing.T, server *services.Controlled)) {
	t.Helper()
	if server, isReal := services.Control(t, "redis"); isReal {
		test(t, server)
	}
}

func must(t testing.TB, c *client.Client, command ...any) {
	t.Helper()
	require.NoError(t, c.Do(t.Context(), command...).Err(), command)
}

// Every error here is one of the server's own.
func TestErrorsOfTheServer(t *testing.T) {
	onOwnServer(t, func(t *testing.T, server *services.Controlled) {
		admin := raw(t, server.Address)
		address := admin.Options().Addr
		must(t, admin, "ACL", "SETUSER", "limited", "on", ">pa55word", "~allowed", "+@all")
		must(t, admin, "ACL", "SETUSER", "nobody", "on", ">pa55word", "~*", "+@all", "-xadd")

		publish := func(t *testing.T, url, text string, kind outbox.FailureKind) {
			t.Helper()
			b := open(t, url, "g")
			for _, errs := range [][]error{
				batch(t, b, outgoing("t", "", "1")),
				batch(t, b, outgoing("t", "k", "1"), outgoing("t", "k", "2"), outgoing("t", "l", "3"))[:1],
			} {
				require.ErrorContains(t, errs[0], text)
				require.Equal(t, kind, b.Classify(errs[0]), errs[0])
				require.NotContains(t, errs[0].Error(), "pa55word")
			}
			require.Zero(t, admin.Exists(t.Context(), "t").Val(), "nothing of it was taken")
		}
		publish(t, "redis://limited:pa55word@"+address, "NOPERM", outbox.FailurePermanent)
		publish(t, "redis://nobody:pa55word@"+address, "NOPERM", outbox.FailurePermanent)
		publish(t, "redis://limited:wrongpa55word@"+address, "WRONGPASS", outbox.FailureOutage)

		b := open(t, "redis://limited:pa55word@"+address, "")
		errs := batch(t, b, outgoing("allowed", "k", "1"), outgoing("forbidden", "l", "2"), outgoing("allowed", "k", "3"))
		require.NoError(t, errs[0])
		require.Equal(t, outbox.FailurePermanent, b.Classify(errs[1]))
		require.NoError(t, errs[2])
		require.Equal(t, []string{"1", "3"}, inStream(t, admin, "allowed"))

		for _, trouble := range []struct {
			text    string
			on, off []any
		}{
			{"OOM", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
			{"NOREPLICAS", []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
			{"NOAUTH", []any{"ACL", "SETUSER", "default", "resetpass", ">x"}, []any{"ACL", "SETUSER", "default", "nopass"}},
			{"READONLY", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
		} {
			must(t, admin, trouble.on...)
			publish(t, "redis://"+address, trouble.text, outbox.FailureOutage)
			must(t, admin, trouble.off...)
		}
	})
}

func TestMissingReplicas(t *testing.T) {
	onOwnServer(t, func(t *testing.T, server *services.Controlled) {
		b := open(t, server.Address+"?replicas=1&timeout=1s", "")
		for _, err := range batch(t, b, outgoing("t", "", "1"), outgoing("t", "", "2")) {
			require.ErrorContains(t, err, "replicas")
			require.Equal(t, outbox.FailureOutage, b.Classify(err))
		}
	})
}

// Publisher and subscription outlive a server that is stopped, killed and started again.
func TestRestartOfTheServer(t *testing.T) {
	onOwnServer(t, func(t *testing.T, server *services.Controlled) {
		b := open(t, server.Address+"?timeout=1s", "g")
		_, messages := subscribe(t, b, "t")
		require.NoError(t, batch(t, b, outgoing("t", "k", "0"))[0])
		require.Equal(t, []string{"0"}, receiveAll(t, messages, 1))
		for i, end := range []func() error{server.Stop, server.Kill} {
			require.NoError(t, end())
			err := batch(t, b, outgoing("t", "k", "lost"))[0]
			require.Equal(t, outbox.FailureOutage, b.Classify(err), err)
			require.Error(t, b.Ping(t.Context()))
			require.NoError(t, server.Start())
			require.NoError(t, b.Ping(t.Context()))
			payload := string(rune('1' + i))
			require.NoError(t, batch(t, b, outgoing("t", "k", payload))[0])
			require.Equal(t, []string{payload}, receiveAll(t, messages, 1))
		}
	})
}

func TestForwarderStartsBeforeItsBroker(t *testing.T) {
	onOwnServer(t, func(t *testing.T, server *services.Controlled) {
		require.NoError(t, server.Stop())
		b := open(t, server.Address, "g")
		err := b.Publisher().Publish("t", message.NewMessage("1", []byte("1")))
		require.Equal(t, outbox.FailureOutage, b.Classify(err), err)
		require.NoError(t, server.Start())
		require.Eventually(t, func() bool {
			return b.Publisher().Publish("t", message.NewMessage("1", []byte("1"))) == nil
		}, patience, 10*time.Millisecond)
	})
}

func TestTLS(t *testing.T) {
	a := brokertest.NewAuthority(t)
	brokertest.SpeaksTLS(t, redis.Driver{}, "rediss://"+brokertest.TLSProxy(t, a.Server(t), raw(t, server(t)).Options().Addr), a, "")
}
