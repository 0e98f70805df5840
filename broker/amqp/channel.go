package amqp

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/rabbitmq/amqp091-go"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// window is the number of messages in flight on a channel. So many returns fit into its buffer, whose reader comes only when
// all are confirmed.
const window = 256

// UnroutedError says that no queue is bound to a topic's exchange, so that nobody would get the message.
type UnroutedError struct{ Topic string }

// Error says what to do about it.
func (e *UnroutedError) Error() string {
	return fmt.Sprintf("amqp: no queue is bound to exchange %q: name the consumer groups in the URL (groups=), start their "+
		"subscribers first, or set unrouted=drop if nobody need get it", e.Topic)
}

var (
	errRejected    = errors.New("amqp: a queue has rejected it, which is full")
	errInterrupted = errors.New("amqp: the server closed the channel because of something else")
	errUnexplained = errors.New("amqp: the server closed the channel because of one of the messages")
)

// parcel is a message ready to be sent.
type parcel struct {
	topic, uuid string
	publishing  amqp091.Publishing
	confirm     *amqp091.DeferredConfirmation
}

// channel is one in confirm mode. It is for one call at a time.
type channel struct {
	*amqp091.Channel
	live    *live
	returns chan amqp091.Return
	closed  chan *amqp091.Error
	reason  *amqp091.Error // of its end
	dirty   bool           // something may be in flight
}

func openChannel(l *live) (*channel, error) {
	ch, err := l.Channel()
	if err != nil {
		return nil, err
	}
	c := &channel{
		Channel: ch, live: l,
		returns: ch.NotifyReturn(make(chan amqp091.Return, window)),
		closed:  ch.NotifyClose(make(chan *amqp091.Error, 1)),
	}
	return c, ch.Confirm(false)
}

// publish sends messages, a window at a time, and waits for their confirms.
func (c *channel) publish(ctx context.Context, parcels []parcel, mandatory bool) []error {
	errs := make([]error, 0, len(parcels))
	for len(parcels) > 0 {
		n := min(window, len(parcels))
		if ctx.Err() != nil {
			return append(errs, each(len(parcels), context.Cause(ctx))...)
		}
		errs = append(errs, c.window(ctx, parcels[:n], mandatory)...)
		parcels = parcels[n:]
	}
	return errs
}

func (c *channel) window(ctx context.Context, parcels []parcel, mandatory bool) []error {
	errs := make([]error, len(parcels))
	c.dirty = true
	for i := range parcels {
		p := &parcels[i]
		p.confirm, errs[i] = c.PublishWithDeferredConfirm(p.topic, "", mandatory, false, p.publishing)
	}
	inFlight := false
	for i := range parcels {
		if errs[i] != nil {
			continue
		}
		select {
		case <-parcels[i].confirm.Done():
		case <-ctx.Done():
		}
		switch {
		case parcels[i].confirm.Acked():
		case ctx.Err() != nil:
			errs[i] = context.Cause(ctx)
			inFlight = true
		default:
			errs[i] = errRejected
		}
	}
	if c.IsClosed() {
		c.explain(parcels, errs)
	} else {
		c.dirty = inFlight
	}
	c.collect(parcels, errs)
	return errs
}

// collect finds what came back. The client hands on a return before the confirm that follows it, so all are there. Two
// messages with one UUID and one topic share their fate.
func (c *channel) collect(parcels []parcel, errs []error) {
	for {
		select {
		case returned, ok := <-c.returns:
			if !ok {
				return
			}
			for i := range parcels {
				p := &parcels[i]
				if errs[i] == nil && p.topic == returned.Exchange && p.uuid == returned.Headers[wamqp.DefaultMessageUUIDHeaderKey] {
					errs[i] = &UnroutedError{p.topic}
				}
			}
		default:
			return
		}
	}
}

var maxSize = regexp.MustCompile(`max size (\d+)`)

// explain finds out whom a channel's end is about. The server may name the exchange, or the size that is allowed; all others
// were only in its way. If it names nothing, that is known of a message that was alone.
func (c *channel) explain(parcels []parcel, errs []error) {
	if c.reason == nil {
		c.reason = amqp091.ErrClosed
		if reason, ok := <-c.closed; ok { // closed after the reason is in, if there is one
			c.reason = reason
		}
	}
	for i := range parcels {
		if errs[i] != nil && !errors.Is(errs[i], context.Canceled) && !errors.Is(errs[i], context.DeadlineExceeded) {
			errs[i] = c.verdict(&parcels[i], len(parcels) == 1)
		}
	}
}

func (c *channel) verdict(p *parcel, alone bool) error {
	limit := 0
	if found := maxSize.FindStringSubmatch(c.reason.Reason); found != nil && c.reason.Code == amqp091.PreconditionFailed {
		limit, _ = strconv.Atoi(found[1])
	}
	about := strings.Contains(c.reason.Reason, "exchange '"+p.topic+"' in vhost")
	switch {
	case limit > 0 && len(p.publishing.Body) > limit:
		return outbox.Permanent(fmt.Errorf("amqp: publishing to %q: %w", p.topic, c.reason))
	case about && c.reason.Code == amqp091.AccessRefused:
		return outbox.Permanent(&topicError{p.topic, c.reason})
	case about && c.reason.Code == amqp091.NotFound:
		return &topicError{p.topic, c.reason}
	case alone || c.reason == amqp091.ErrClosed || c.live.IsClosed(): // with the connection it is about nobody
	case limit > 0 || c.reason.Code == amqp091.AccessRefused || c.reason.Code == amqp091.NotFound:
		return errInterrupted
	default:
		return errUnexplained
	}
	return fmt.Errorf("amqp: publishing to %q: %w", p.topic, c.reason)
}
