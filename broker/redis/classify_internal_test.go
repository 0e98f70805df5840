package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// The texts are a server's; TestErrorsOfTheServer provokes most of them.
func TestClassify(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	defer client.Close()
	for text, kind := range map[string]outbox.FailureKind{
		"WRONGTYPE Operation against a key holding the wrong kind of value": outbox.FailurePermanent,
		"NOPERM No permissions to access a key":                             outbox.FailurePermanent,
		"LOADING Redis is loading the dataset in memory":                    outbox.FailureOutage,
		"MISCONF Redis is configured to save RDB snapshots":                 outbox.FailureOutage,
		"MASTERDOWN Link with MASTER is down":                               outbox.FailureOutage,
		"CLUSTERDOWN The cluster is down":                                   outbox.FailureOutage,
		"BUSY Redis is busy running a script":                               outbox.FailureOutage,
		"ERR max number of clients reached":                                 outbox.FailureOutage,
		"ERR The stream has exhausted the last possible ID":                 outbox.FailureUnknown,
	} {
		server.SetError(text)
		err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: "t", Values: []string{"a", "b"}}).Err()
		require.EqualError(t, err, text)
		require.Equal(t, kind, classify(fmt.Errorf("wrapped: %w", err)), text)
	}
	for _, err := range []error{
		io.EOF, net.ErrClosed, redis.ErrPoolTimeout, broker.ErrClosed, errReplicas, &net.OpError{Op: "dial", Err: errors.New("refused")},
	} {
		require.Equal(t, outbox.FailureOutage, classify(fmt.Errorf("wrapped: %w", err)), err)
	}
	require.Equal(t, outbox.FailureUnknown, classify(errors.New("something else")))
	require.Equal(t, outbox.FailureUnknown, classify(nil))
}
