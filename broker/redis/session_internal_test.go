package redis

import (
	"context"
	"io"
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

// losing executes a read, and loses its answer once.
type losing struct {
	redis.UniversalClient
	lose bool
}

func (l *losing) XReadGroup(ctx context.Context, args *redis.XReadGroupArgs) *redis.XStreamSliceCmd {
	command := l.UniversalClient.XReadGroup(ctx, args)
	if l.lose {
		l.lose = false
		return redis.NewXStreamSliceCmdResult(nil, io.EOF)
	}
	return command
}

// The server has given a message out, and dies, or the connection does, before the answer is here: only this consumer can
// have the message, before anything newer.
func TestWhatALostAnswerHadIsReadAgain(t *testing.T) {
	url, _ := services.Redis(t)
	options, err := redis.ParseURL(url)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer func() { require.NoError(t, client.Close()) }()
	s := &session{UniversalClient: &losing{client, true}, stream: testdb.Random("lost_"), group: "g", consumer: "c"}
	require.NoError(t, s.create(t.Context()))
	var ids []string
	for range 2 {
		id, err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: s.stream, Values: []string{"a", "b"}}).Result()
		require.NoError(t, err)
		ids = append(ids, id)
	}
	args := &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{s.stream, ">"}, Count: 1, Block: readBlock}
	require.ErrorIs(t, s.XReadGroup(t.Context(), args).Err(), io.EOF)
	for _, id := range ids {
		streams, err := s.XReadGroup(t.Context(), args).Result()
		require.NoError(t, err)
		require.Len(t, streams, 1)
		require.Len(t, streams[0].Messages, 1)
		require.Equal(t, id, streams[0].Messages[0].ID)
		require.NoError(t, client.XAck(t.Context(), s.stream, "g", id).Err())
	}
}
