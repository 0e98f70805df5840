// Package broker opens a message broker by its URL, so that a program changes brokers by its configuration:
//
//	brokers := broker.NewMux(kafka.Driver{}, amqp.Driver{}) // or all.Mux(), for every one there is
//	b, err := brokers.Open(ctx, os.Getenv("BROKER_URL"), broker.Options{Group: "emails"})
//	…
//	forwarder, err := outbox.NewForwarder(pool, b.Publisher(), outbox.ForwarderConfig{Classify: b.Classify}, logger)
//	subscriber, err := b.Subscriber()
//
// # What is the same everywhere
//
//   - A publish returns nil only when the broker has the message safely, by the strongest acknowledgement that it offers.
//   - The messages of a key (outbox.SetKey) stay in order, one after the other to the same consumer group.
//   - Subscribers of one group share a topic's messages; every group gets each of them. A group that is new begins with
//     the oldest message that the broker still has.
//   - UUID, metadata and payload arrive as they were written.
//   - A publish ends with its message's context, after 30 s at the latest. Of a context that is over before the publish
//     begins only the values count: Watermill's Timeout leaves such a one with a message that PoisonQueue publishes.
//   - Open does no I/O that waits for the broker: it is reached by the first publish or subscribe, and again after an
//     outage. Ping tells whether it can be reached now.
//   - What a URL does not say, an environment variable may: user and password as BROKER_USER and BROKER_PASSWORD, any
//     parameter as BROKER_ and its name in capitals, BROKER_TLS_CA for instance.
//   - No error and no log contains a password.
//
// The packages below this one tell what each broker adds, and where it differs.
package broker
