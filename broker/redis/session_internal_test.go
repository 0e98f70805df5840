package redis

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/services"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// Only names without messages go, and only those that are silent for long enough.
func TestDeadConsumersAreForgotten(t *testing.T) {
	url, _ := services.Redis(t)
	options, err := redis.ParseURL(url)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	s := &session{UniversalClient: client, stream: testdb.Random("forgotten-"), group: "g", consumer: "c"}
	ctx := t.Context()
	require.NoError(t, s.create(ctx))
	require.NoError(t, s.create(ctx), "it is there")
	require.NoError(t, client.XAdd(ctx, &redis.XAddArgs{Stream: s.stream, Values: []string{"a", "b"}}).Err())
	require.NoError(t, client.XGroupCreateConsumer(ctx, s.stream, "g", "without").Err())
	require.NoError(t, client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "with", Streams: []string{s.stream, ">"}}).Err())

	names := func() (names []string) {
		consumers, err := client.XInfoConsumers(ctx, s.stream, "g").Result()
		require.NoError(t, err)
		for _, c := range consumers {
			names = append(names, c.Name)
		}
		return names
	}
	require.NoError(t, s.forgetDead(ctx, time.Hour))
	require.ElementsMatch(t, []string{"with", "without"}, names())
	require.NoError(t, s.forgetDead(ctx, -time.Second))
	require.Equal(t, []string{"with"}, names())
}
