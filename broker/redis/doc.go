// Package redis publishes to Redis Streams and subscribes to them, in the format of watermill-redisstream: a topic is a
// stream, a consumer group one of Redis.
//
//	redis://user:password@localhost:6379/0?maxlen=1000000    rediss:// for TLS; the path is the number of the database
//
//	maxlen          a stream is cut to about so many messages at each publish, whether they were consumed or not. Default 0:
//	                nothing is ever cut, and a stream grows until somebody trims it (XTRIM)
//	replicas        so many replicas must have a message before it counts as published (WAIT). Default 0
//	timeout         of a connect, and of an answer. Default 5s
//	max_idle        so long after its consumer died, a message that it had goes to another one. Default 30s
//	claim_interval  how often a consumer looks for such messages. Default 5s
//	nack_delay      wait before a message that was nacked comes again. Default 100ms
//	tls, tls_ca, tls_cert, tls_key, tls_insecure: see broker.Params
//
// # How safe is a message
//
// As safe as the server makes it: an acknowledged XADD is in its memory, and on its disk at once only with appendonly yes and
// appendfsync always (with everysec a crash loses a second; without appendonly, what came after the last snapshot). A
// failover may lose what no replica has yet; replicas=1 makes a publish wait for one. A payload of nil arrives empty, not nil.
//
// # Order
//
// The messages of a key are in their order in the stream. A group's consumers share the stream message by message, whatever
// the keys are: order of handling is kept only if a group has one subscriber at a time. After a graceful stop the next one
// begins with what the last one had in its hands. After a crash that comes up to max_idle later, behind newer messages.
//
// # Consumers
//
// Each Subscribe is a consumer with a name of its own, host, process and a random part. It gets one message at a time,
// tells every third of max_idle that it still has it, however long the handler takes, and hands it back when it is closed. A
// consumer that has vanished without pending messages is forgotten after a day; that needs the right to EVAL, without
// which its name stays. A group that has vanished, because the server came up without its data, is made again.
//
// An entry that something else than Watermill wrote arrives without UUID, its fields as metadata.
//
// # What errors mean
//
// Permanent are WRONGTYPE (the topic's name is in use by another type), NOPERM (an ACL forbids command or key), a metadata
// entry by the reserved name _watermill_message_uuid, and a payload or metadata above 512 MB, the server's
// proto-max-bulk-len, where it cuts the connection without a word. An outage is what nobody's message would survive: the
// network, LOADING, READONLY, OOM, MISCONF, NOREPLICAS, NOAUTH, WRONGPASS and their like.
//
// Tried with Redis 7.0. XPENDING with IDLE needs 6.2.
package redis
