// Package amqp publishes to RabbitMQ and subscribes to it by AMQP 0-9-1, in the format and with the names of
// watermill-amqp's durable pub/sub: a topic is a durable fanout exchange, a consumer group's queue is topic_group.
//
//	amqp://user:password@localhost:5672/vhost?groups=emails,billing    amqps:// for TLS
//
// No vhost, or an empty one, is "/"; a slash in its name is %2F. Several hosts are those of a cluster; they are tried in
// order. Without user and password it is guest.
//
//	groups      consumer groups whose queues the publisher makes with the exchange, so that a message waits for a group that
//	            has not come yet. Default none
//	unrouted    error, the default, or drop: what becomes of a message when no queue is bound to its exchange
//	queue_type  classic or quorum, for queues that are made. Default: the server's
//	single      true makes queues with x-single-active-consumer: one consumer of the group has all messages, in order, until it
//	            dies. Default false
//	prefetch    messages that a subscription has in its hands at most; the first is handled, the rest wait. Default 1
//	nack_delay  wait before a message that was nacked comes again, to the same subscription. Default 100ms
//	timeout     of a connect. Default 5s
//	tls, tls_ca, tls_cert, tls_key, tls_insecure: see broker.Params
//
// An exchange or a queue that exists is used as it is, whatever its type. So a user without the right to configure can
// publish and subscribe where somebody else has made them.
//
// # How safe is a message
//
// It is persistent, and published only when the server has confirmed it: every queue that it goes to has it on its disk, a
// quorum queue on most of its nodes. An exchange keeps nothing: a message to which no queue is bound would be lost, and
// confirmed all the same. So it is published mandatory, and is an *UnroutedError when it comes back. Name the groups
// in the URL, or start their subscribers first, or say unrouted=drop if nobody need get it. A group that comes later gets
// nothing from before it came: unlike other brokers, RabbitMQ has no older messages for it.
//
// # Order
//
// The messages of a key stand in their order in every queue. Several subscribers of a group share the queue message by
// message, whatever the keys are; order of handling is kept with single=true, or one subscriber at a time. What was not
// acknowledged when a consumer stops or dies goes back to its place at the head of the queue.
//
// # Consumers
//
// The subscriber is this package's own, because that of watermill-amqp v3.0.2 has data races when it connects again, hands out an
// empty message when its queue is deleted, and asks for a message with a header that is no string (a dead letter's x-death,
// for instance) again and again without end. Here such a header arrives as text. A message that was nacked comes
// again without having been at the server: that counts no delivery, of which RabbitMQ 4 allows a quorum queue 20 before it
// drops a message.
//
// # What errors mean
//
// Permanent are a message above the server's max_message_size, metadata above what a frame holds (about 128 KiB), a topic or
// the name of a metadata entry above 255 bytes, metadata CC or BCC, which are RabbitMQ's own, and a refusal for its exchange
// (ACCESS_REFUSED). An outage is what nobody's message would survive: no connection, a wrong password or vhost, a connection
// that the server blocks (memory, disk), a queue that is full and rejects. When the server closes a channel because of one
// message, those in flight beside it are sent again in the same call, one by one if the server names none; copies come of
// that. So are those whose exchange, or whose queue of a group in the URL, was deleted meanwhile, once it is made again. An
// *UnroutedError is judged by evidence.
//
// Tried with RabbitMQ 3.10.
package amqp
