// Package all knows every broker of this module. A program that imports it compiles all their clients; one that needs two
// of them makes its own broker.NewMux.
package all

import (
	"context"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/amqp"
	"github.com/watermill-outbox/watermill-outbox/broker/gochannel"
	"github.com/watermill-outbox/watermill-outbox/broker/kafka"
	"github.com/watermill-outbox/watermill-outbox/broker/nats"
	"github.com/watermill-outbox/watermill-outbox/broker/redis"
	"github.com/watermill-outbox/watermill-outbox/broker/sql"
	"github.com/watermill-outbox/watermill-outbox/broker/stdout"
)

// Mux gives a broker.Mux with every driver.
func Mux() *broker.Mux {
	return broker.NewMux(
		amqp.Driver{},
		gochannel.Driver{},
		kafka.Driver{},
		nats.Driver{},
		redis.Driver{},
		sql.Driver{},
		stdout.Driver{},
	)
}

// Open opens a broker with any of them; see broker.Mux.
func Open(ctx context.Context, url string, options broker.Options) (broker.Broker, error) {
	return Mux().Open(ctx, url, options)
}
