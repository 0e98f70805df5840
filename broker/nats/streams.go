package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"
)

const (
	// unknownAfter is how long a topic has to be unknown until that counts as final: a cluster that starts may not know its
	// streams yet.
	unknownAfter = 5 * time.Second
	// askTimeout bounds one question to JetStream, so that there is time left to publish to other topics.
	askTimeout = 4 * time.Second
)

// streams knows which stream has a topic, and creates those that are missing. It is safe for concurrent use.
type streams struct {
	settings *settings
	denials  *denials
	flight   singleflight.Group

	mu      sync.Mutex
	known   map[string]string    // streams by topic; "" if the user may not ask
	unknown map[string]time.Time // topics without one, since when
}

func newStreams(s *settings, d *denials) *streams {
	return &streams{settings: s, denials: d, known: map[string]string{}, unknown: map[string]time.Time{}}
}

// of gives the name of the stream that has a topic among its subjects, and makes one if need be. It is empty if the user may
// not ask: then it is taken for granted that there is one. No stream, and none to be made, is an *UnknownTopicError.
func (s *streams) of(ctx context.Context, l *link, topic string) (string, error) {
	if err := checkTopic(topic); err != nil {
		return "", err
	}
	s.mu.Lock()
	stream, ok := s.known[topic]
	s.mu.Unlock()
	if ok {
		return stream, nil
	}
	asked := s.flight.DoChan(topic, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout) // the others that wait have their own ends
		defer cancel()
		return s.ask(ctx, l, topic)
	})
	select {
	case r := <-asked:
		stream, _ = r.Val.(string)
		return stream, r.Err
	case <-ctx.Done():
		return "", fmt.Errorf("nats: asking for the stream of %q: %w", topic, context.Cause(ctx))
	}
}

func (s *streams) ask(ctx context.Context, l *link, topic string) (string, error) {
	stream, err := s.find(ctx, l, topic)
	if errors.Is(err, jetstream.ErrStreamNotFound) && s.settings.autoProvision {
		stream, err = s.create(ctx, l, topic)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch denied := new(PermissionError); {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		since, ok := s.unknown[topic]
		if !ok {
			since = time.Now()
			s.unknown[topic] = since
		}
		return "", &UnknownTopicError{Topic: topic, For: time.Since(since)}
	case errors.As(err, &denied):
		return "", denied
	case err != nil:
		return "", fmt.Errorf("nats: the stream of %q: %w", topic, err)
	}
	delete(s.unknown, topic)
	s.known[topic] = stream
	return stream, nil
}

func (s *streams) find(ctx context.Context, l *link, topic string) (stream string, err error) {
	err = s.denials.guard(ctx, []string{"$JS.API.STREAM.NAMES"}, func(ctx context.Context) error {
		stream, err = l.StreamNameBySubject(ctx, topic)
		return err
	})
	if denied := new(PermissionError); errors.As(err, &denied) {
		return "", nil
	}
	return stream, err
}

// create makes a topic's stream. That somebody else made it at the same time is no error.
func (s *streams) create(ctx context.Context, l *link, topic string) (string, error) {
	config := jetstream.StreamConfig{
		Name: streamName(topic), Subjects: []string{topic}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
		Replicas: s.settings.replicas, MaxAge: s.settings.maxAge, Duplicates: s.settings.duplicateWindow,
	}
	err := s.denials.guard(ctx, []string{"$JS.API.STREAM.CREATE." + config.Name}, func(ctx context.Context) error {
		_, err := l.CreateStream(ctx, config)
		return err
	})
	if err == nil {
		return config.Name, nil
	}
	if found, findErr := s.find(ctx, l, topic); findErr == nil && found != "" {
		return found, nil
	}
	return "", err
}

// forget makes the next message ask again: nobody answered to a topic.
func (s *streams) forget(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, topic)
}
