// Package nats is the broker driver for NATS JetStream, of nats-server 2.9 and later.
//
//	nats://user:password@host:4222,host:4222?parameter=value
//	nats+tls://…
//
// A user without a password is a token, as in NATS's own URLs. The hosts are servers of one cluster.
//
// The wire format is that of watermill-nats's NATSMarshaler: metadata are headers, the UUID is the header
// _watermill_message_uuid. Some texts are no headers: NATS would replace line breaks by spaces, cut white space off the ends,
// or take the message's metadata for an order to purge the stream (Nats-Rollup). Such metadata travel in one more header,
// _watermill_outbox_exact, and arrive here as they were written; watermill-nats's subscribers see them as NATS alters
// them. Headers that begin with Nats- are the server's, and never become metadata. A nil payload arrives empty.
//
// # Parameters
//
//	credentials       file of NATS credentials (.creds), instead of user and password
//	tls, tls_ca, …    see broker.Params
//	client_name       what the server's monitoring shows; defaults to watermill-outbox
//	auto_provision    true (the default) makes a stream for a topic that has none; with false a message to it becomes a dead
//	                  letter
//	replicas          of a stream that is made, 1 (the default) to 5; with 1, its messages are lost with the one server's disk
//	max_age           how long a stream that is made keeps a message, as 168h; by default for ever. With a limit, what a group
//	                  has not taken by then is lost to it
//	duplicate_window  how long a stream that is made knows its messages again; defaults to 2m
//	ack_wait          after which a message is redelivered whose subscriber died or lost its connection; defaults to 30s
//	max_ack_pending   how many messages of a topic a group's subscribers may have in hand together; defaults to 1
//	nack_delay        after which a message that was nacked comes again; defaults to 100ms
//
// # Streams
//
// A topic is a subject, and so may have dots, but no wildcards and no white space; see InvalidTopicError. It belongs to the
// stream that has this subject, alone, among others or by a wildcard. If there is none, one is made for this topic: on the
// disk, with the topic as its name, in which other characters than letters, digits, _ and - are replaced and a hash is
// added. Nothing that is published is lost because nobody has subscribed yet. A user who may not ask JetStream for streams
// can publish to those that exist.
//
// # Publishing
//
// A publish returns when the stream has stored the message, in a cluster on a majority of its replicas. When the server
// flushes its file to the disk is its own setting, sync_interval; a machine that loses power may lose what is younger,
// unless it is "always".
//
// The id (Nats-Msg-Id), by which a stream drops duplicates within its duplicate window, is made of topic, UUID, metadata
// and payload. A message whose acknowledgement was lost is published again and stored once. The same UUID on another topic,
// or with other metadata, as when a consumer's dead letter is sent again, is another message. Publishing a message again
// on purpose, equal in everything, has no effect within the window; a message without a UUID has no id.
//
// A batch is sent as a whole, and its answers are waited for together; but each message of a key is sent when the one before
// it is stored, since a stream can take a later one although it refused an earlier one.
//
// # Subscribing
//
// A group has a durable pull consumer on each of its topics, named after both; it begins with the oldest message. By default
// it hands out one message at a time, to all of the group's subscribers together: the topic's messages come strictly in
// order, also when one of them is nacked, and more subscribers are a reserve, not a gain. With a greater max_ack_pending
// that many subscribers work at the same time, and then messages of one key can overtake each other, also those of a single
// subscriber that nacks. All copies of a service must use the same value: the last one that subscribes sets it.
//
// A server that crashes may have forgotten what a group was given last, and what was acknowledged last: it comes again.
//
// A subscriber keeps its message, however long it takes, as long as it lives. Close hands back what is not acknowledged, at
// once. The subscriber is not watermill-nats's. That of its package pkg/nats lets a message go that takes longer than
// ack_wait, to a second subscriber at the same time, and lets a group wait as long for what was in hand at Close; that of
// pkg/jetstream panics when its context ends while messages come, and writes a line for each of them.
//
// # Failures
//
// Permanent: too large for the server (max_payload, 1 MiB by default; it is refused before it is sent) or for the stream,
// headers above 64 KiB, an invalid topic, not permitted to publish to it, and a topic that has been without a stream for five
// seconds while auto_provision is off. An outage: no connection, no answer, a wrong password, and what the server itself
// calls its own fault, as a full disk or a stream that is full and set to refuse what is new.
package nats
