package outbox

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
)

// correlationID is the metadata entry of Watermill's CorrelationID middleware, which would find nothing to set it on:
// what a handler returns does not get beyond the inbox.
const correlationID = "correlation_id"

// capture writes what the handler returned into the outbox.
func (i *Inbox) capture(ctx, own context.Context, tx inboxTx, msg *message.Message, produced []*message.Message) error {
	if len(produced) == 0 {
		return nil
	}
	topic := message.PublishTopicFromCtx(own)
	if topic == "" {
		topic = i.config.PublishTopic
	}
	if topic == "" {
		return ErrNoPublishTopic
	}
	for _, m := range produced {
		inherit(own, m, msg)
	}
	rows, err := i.publisher.config.prepare(topic, produced)
	if err != nil {
		return err
	}
	ctx, cancel := i.config.limited(ctx)
	defer cancel()
	return i.publisher.write(ctx, tx.execute, topic, produced, rows)
}

// inherit gives a produced message what the router would have given it, unless it has its own.
func inherit(ctx context.Context, m, from *message.Message) {
	if m == nil || m == from {
		return
	}
	if m.Context() == context.Background() {
		m.SetContext(ctx)
	}
	if id := from.Metadata[correlationID]; id != "" && m.Metadata[correlationID] == "" {
		if m.Metadata == nil {
			m.Metadata = message.Metadata{}
		}
		m.Metadata[correlationID] = id
	}
}
