package amqp

import (
	"context"
	"errors"

	"github.com/rabbitmq/amqp091-go"
)

// resends is how often the rest of a batch is sent again in one call after one of its messages has closed the channel.
const resends = 8

// route sends, and makes again what has been deleted since the connection was made: exchanges, and queues of the URL's groups.
func (p *publisher) route(ctx context.Context, live *live, parcels []parcel) []error {
	errs := p.resend(ctx, live, parcels)
	var again []int
	var rest []parcel
	topics := map[string]error{}
	for i := range parcels {
		if !p.deleted(errs[i]) {
			continue
		}
		topic := parcels[i].topic
		if _, known := topics[topic]; !known {
			live.forget(topic)
			topics[topic] = p.prepare(live, topic)
		}
		if errs[i] = topics[topic]; errs[i] == nil {
			again, rest = append(again, i), append(rest, parcels[i])
		}
	}
	for n, err := range p.resend(ctx, live, rest) {
		errs[again[n]] = err
	}
	return errs
}

// deleted says whether what a message needs may be missing although it was made.
func (p *publisher) deleted(err error) bool {
	var unrouted *UnroutedError
	var ofTopic *topicError
	var answer *amqp091.Error
	return len(p.groups) > 0 && errors.As(err, &unrouted) ||
		errors.As(err, &ofTopic) && errors.As(err, &answer) && answer.Code == amqp091.NotFound
}

// resend sends those again that were only in the way, as long as that finds one that they were in the way of, and at last one
// by one.
func (p *publisher) resend(ctx context.Context, live *live, parcels []parcel) []error {
	errs := p.onChannel(ctx, live, parcels)
	for range resends {
		var again []int
		var rest []parcel
		for i := range parcels {
			if errors.Is(errs[i], errInterrupted) {
				again, rest = append(again, i), append(rest, parcels[i])
			}
		}
		if len(rest) == 0 {
			break
		}
		for n, err := range p.onChannel(ctx, live, rest) {
			errs[again[n]] = err
		}
	}
	for i := range parcels {
		if errors.Is(errs[i], errInterrupted) || errors.Is(errs[i], errUnexplained) {
			errs[i] = p.onChannel(ctx, live, parcels[i:i+1])[0]
		}
	}
	return errs
}
