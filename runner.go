package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

var (
	errPublishTimeout = errors.New("outbox: the publisher did not return within PublishTimeout")
	errGoexit         = errors.New("outbox: the publisher ended its goroutine (runtime.Goexit)")
	errNotCalled      = errors.New("outbox: a middleware returned nil, but the publisher did not acknowledge the message")
	errLostContext    = errors.New("outbox: a middleware passed on a message without the context of the one it was given")
)

// runner works through a delivery's groups, one at a time.
type runner struct {
	*delivery
	writtenOff bool // its publish outlived the timeout; another runner has its place
}

func (r *runner) run() {
	returned := false
	defer func() {
		switch {
		case r.writtenOff:
		case returned:
			r.slotEnded()
		default: // runtime.Goexit ended this goroutine: another one goes on in its place
			go (&runner{delivery: r.delivery}).run()
		}
	}()
	quiet := r.f.evidence.quiet()
	for !r.writtenOff {
		g := int(r.nextGroup.Add(1)) - 1
		if g >= len(r.groups) {
			break
		}
		for _, i := range r.groups[g] {
			if !r.mayBegin() || !quiet && !r.f.evidence.mayTry(r.rows[i].ID) || !r.publish(i) {
				break
			}
		}
	}
	returned = true
}

// publish publishes one row and says whether it was acknowledged. A panic, or the end of the goroutine, is a failure of
// that message.
func (r *runner) publish(i int) (ok bool) {
	row := &r.rows[i]
	r.started(i, r.f.evidence.now())
	err := errGoexit
	defer func() {
		if p := recover(); p != nil {
			err = r.f.panicked(p, watermill.LogFields{"topic": row.Topic, "uuid": row.UUID})
		}
		ok = err == nil
		if !r.end(i, err) {
			r.writtenOff, ok = true, false
			r.f.abandoned.Add(-1)
		}
	}()
	msg, err := forwardedMessage(row)
	if err != nil {
		return
	}
	msg.SetContext(r.contexts[row.Topic])
	err = errGoexit
	err = r.f.send(row.Topic, msg)
	return
}

// panicked makes an error of a publisher's panic, and logs where it was.
func (f *Forwarder) panicked(p any, fields watermill.LogFields) error {
	err := fmt.Errorf("outbox: the publisher panicked: %v", p)
	fields["stack"] = string(debug.Stack())
	f.logger.Error("Publisher panicked", err, fields)
	return err
}

// attempt is one publish on its way through the middlewares.
type attempt struct {
	topic        string
	acknowledged bool
}

type attemptKey struct{}

// chain wraps the publisher in the middlewares, once, as a router does with a handler.
func chain(publisher message.Publisher, middlewares []message.HandlerMiddleware) message.HandlerFunc {
	handler := message.HandlerFunc(func(msg *message.Message) ([]*message.Message, error) {
		a, ok := msg.Context().Value(attemptKey{}).(*attempt)
		if !ok {
			return nil, errLostContext
		}
		err := publisher.Publish(a.topic, msg)
		a.acknowledged = err == nil
		return nil, err
	})
	for i := len(middlewares) - 1; i >= 0; i-- {
		handler = middlewares[i](handler)
	}
	return handler
}

// send publishes one message through the middlewares.
func (f *Forwarder) send(topic string, msg *message.Message) error {
	if len(f.config.Middlewares) == 0 {
		return f.publisher.Publish(topic, msg)
	}
	a := &attempt{topic: topic}
	msg.SetContext(context.WithValue(msg.Context(), attemptKey{}, a))
	if _, err := f.chain(msg); err != nil {
		return err
	}
	if !a.acknowledged {
		return errNotCalled
	}
	return nil
}
