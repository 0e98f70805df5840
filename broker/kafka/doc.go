// Package kafka is the broker driver for Apache Kafka 2.4 and later.
//
//	kafka://user:password@host:9092,host:9092?parameter=value
//	kafka+tls://…
//
// The wire format is that of watermill-kafka's DefaultMarshaler: metadata are headers, the UUID is the header
// _watermill_message_uuid. A message's key (outbox.SetKey) is the record's key, hashed as sarama's and so watermill-kafka's
// publishers do, so that both put a key on the same partition. Messages without a key spread over the partitions. A nil
// payload is Kafka's null, a tombstone; an empty one stays empty.
//
// # Parameters
//
//	sasl               plain, scram-sha-256 or scram-sha-512; scram-sha-512 is the default when there is a user
//	tls, tls_ca, …     see broker.Params
//	client_id          defaults to watermill-outbox
//	create_topics      true (the default) lets the broker create a topic that is not there, if it is configured to;
//	                   with false a message to an unknown topic becomes a dead letter
//	compression        none, gzip, snappy, lz4 or zstd; defaults to snappy
//	max_message_bytes  the largest batch of a topic whose own limit the broker does not tell; defaults to 1048588, as Kafka's
//	from               where a group that is new begins: oldest (the default) or newest
//
// # Publishing
//
// The producer waits for all in-sync replicas and is idempotent, so that a retry inside of it makes no copy. It is franz-go's,
// not watermill-kafka's: that one sends a message a round trip, and cannot be told to stop behind a failed one. Here each
// batch of a forwarder is buffered as a whole, then sent. Should the broker refuse a part of it, franz-go fails everything
// behind that on the same partition, and the broker refuses what was in flight already, because its sequence numbers
// would have a gap. So many messages of one key are in flight together, and still none overtakes a failed one.
//
// A message that is too large is refused before it is sent: the topic's max.message.bytes is asked for, and once more before
// a message is refused, since somebody may have raised it. Where the broker does not tell, and where it was lowered, the
// broker's own refusal is traced to its message by sending those of the failed batch again one by one.
//
// # Failures
//
// Permanent: too large, an invalid topic name, not authorised for the topic, what the broker calls an invalid record (one
// without a key for a compacted topic), and a topic that has been unknown for five seconds while create_topics is off.
// An outage: everything else that has to do with reaching the brokers, a wrong password, and the cluster's own refusals.
package kafka
