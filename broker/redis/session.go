package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// readBlock is how long a read waits at the server. A subscription ends only when its read has: what arrived for a
	// reader that is gone would wait for max_idle.
	readBlock = 250 * time.Millisecond
	// handedBack is the idle time of a message that is free for any consumer at once, whatever its max_idle is.
	handedBack = 24 * time.Hour
	// forgetAfter is how long a consumer may be silent before its name is removed.
	forgetAfter = 24 * time.Hour
	pageSize    = 100
)

// forget removes the names of dead consumers. Seen and removed in one step: one that comes back between the two would
// lose the message that it has just got. A server before 7.2 counts a consumer that waits in vain as silent; it is made
// again by its next message.
var forget = redis.NewScript(`
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
	local c = {}
	for i = 1, #consumer, 2 do c[consumer[i]] = consumer[i + 1] end
	if c.pending == 0 and c.idle > tonumber(ARGV[2]) then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], c.name) end
end`)

// session is the client of one subscription, as watermill-redisstream's subscriber sees it. It knows when the last read has
// ended, and makes a group again that has vanished.
type session struct {
	redis.UniversalClient
	stream, group, consumer string
	maxIdle                 time.Duration

	mu     sync.Mutex
	ended  bool
	id     string // that of the message that was unmarshalled last
	unsure bool   // a read failed: what the server had given out by then is this consumer's, and nobody has it
	active sync.WaitGroup
}

// Close does nothing: the client is shared.
func (*session) Close() error { return nil }

// begin says whether a command that gets messages may be sent; done must follow.
func (s *session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.active.Add(1)
	}
	return !s.ended
}

// end waits until no command can get a message any more.
func (s *session) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.active.Wait()
}

// XReadGroup reads. Without the group it makes it, and has read nothing.
func (s *session) XReadGroup(ctx context.Context, args *redis.XReadGroupArgs) *redis.XStreamSliceCmd {
	if !s.begin() {
		return redis.NewXStreamSliceCmdResult(nil, redis.Nil)
	}
	defer s.active.Done()
	if command := s.readAgain(ctx, args); command != nil {
		return command
	}
	command := s.UniversalClient.XReadGroup(ctx, args)
	if err := command.Err(); err != nil && !errors.Is(err, redis.Nil) {
		s.setUnsure(true)
	}
	if redis.HasErrorPrefix(command.Err(), "NOGROUP") && s.create(ctx) == nil {
		command.SetErr(redis.Nil)
	}
	withIDs(command.Val())
	return command
}

// readAgain reads what was given out by a read whose answer was lost, in its order, before anything newer; nil if there is
// nothing of that.
func (s *session) readAgain(ctx context.Context, args *redis.XReadGroupArgs) *redis.XStreamSliceCmd {
	s.mu.Lock()
	unsure := s.unsure
	s.mu.Unlock()
	if !unsure {
		return nil
	}
	own := *args
	own.Streams = []string{s.stream, "0"}
	command := s.UniversalClient.XReadGroup(ctx, &own)
	switch streams, err := command.Result(); {
	case redis.HasErrorPrefix(err, "NOGROUP"):
		return nil
	case err != nil && !errors.Is(err, redis.Nil):
		return command
	case len(streams) == 0 || len(streams[0].Messages) == 0:
		s.setUnsure(false)
		return nil
	}
	withIDs(command.Val())
	return command
}

func (s *session) setUnsure(unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure = unsure
}

// XClaim takes a message over.
func (s *session) XClaim(ctx context.Context, args *redis.XClaimArgs) *redis.XMessageSliceCmd {
	if !s.begin() {
		return redis.NewXMessageSliceCmdResult(nil, context.Canceled)
	}
	defer s.active.Done()
	command := s.UniversalClient.XClaim(ctx, args)
	withID(command.Val())
	return command
}

// create makes stream and group, if they are not there.
func (s *session) create(ctx context.Context) error {
	err := s.XGroupCreateMkStream(ctx, s.stream, s.group, "0").Err()
	if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
		return fmt.Errorf("redis: making group %q of stream %q: %w", s.group, s.stream, closedAs(err))
	}
	return nil
}

// forgetDead removes the names of consumers that have been silent for so long.
func (s *session) forgetDead(ctx context.Context, after time.Duration) error {
	err := forget.Run(ctx, s, []string{s.stream}, s.group, after.Milliseconds()).Err()
	if errors.Is(err, redis.Nil) { // the script returns nothing
		return nil
	}
	return err
}

// keep tells the server that the consumer still has what it has. What is idle for too long may be another one's by now.
func (s *session) keep(ctx context.Context) error {
	_, err := s.touch(ctx, 0, func(idle time.Duration) bool { return idle < s.maxIdle })
	return err
}

// handBack gives what the consumer still has to the others, at once, and removes it if it has nothing.
func (s *session) handBack(ctx context.Context) error {
	n, err := s.touch(ctx, handedBack, func(idle time.Duration) bool { return idle < s.maxIdle })
	if err != nil || n > 0 {
		return err
	}
	return s.XGroupDelConsumer(ctx, s.stream, s.group, s.consumer).Err()
}

// touch sets the idle time of the consumer's messages, and counts all that it has.
func (s *session) touch(ctx context.Context, idle time.Duration, which func(time.Duration) bool) (n int, err error) {
	for start := "-"; ; {
		page, err := s.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: s.stream, Group: s.group, Consumer: s.consumer, Start: start, End: "+", Count: pageSize,
		}).Result()
		if err != nil || len(page) == 0 {
			return n, err
		}
		args := []any{"XCLAIM", s.stream, s.group, s.consumer, 0}
		few := len(args)
		for _, pending := range page {
			if which(pending.Idle) {
				args = append(args, pending.ID)
			}
			start = "(" + pending.ID
		}
		n += len(page)
		if len(args) > few {
			err = s.Do(ctx, append(args, "IDLE", idle.Milliseconds(), "JUSTID")...).Err()
		}
		if err != nil || len(page) < pageSize {
			return n, err
		}
	}
}
