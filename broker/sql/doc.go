// Package sql is the broker driver for another PostgreSQL, 13 or later: messages are rows of its tables, in the format of
// watermill-sql v3.
//
//	postgres://user:password@host:5432,host:5432/database?parameter=value
//	postgresql://…
//
// Each topic has two tables, watermill_TOPIC for its messages and watermill_offsets_TOPIC for how far each group has come.
// They are watermill-sql's own, and its publishers and subscribers work on them, but the payload's column is bytea, so that
// it takes any payload. Into a table that is there already, with watermill-sql's default of JSON, go payloads that are
// JSON; any other is refused for good. Nothing deletes messages: that is for the operator. A nil payload stays nil.
//
// # Parameters
//
//	auto_initialize  true (the default) creates a topic's tables when they are missing; with false a message to such a topic
//	                 becomes a dead letter
//	poll_interval    how often a subscriber asks when there was nothing; defaults to 100ms
//	ack_deadline     how long a handler may take, then its message comes again; defaults to 30s
//
// All others are the database's connection string's: sslmode, search_path, pool_max_conns (of the publisher) and
// default_query_exec_mode (exec behind a PgBouncer that pools transactions), for instance. See pgx's documentation. What
// the URL does not say, PGHOST and the like may.
//
// # Publishing
//
// A batch is one transaction, in one round trip. If the server refuses it, nothing of it is there; it is then sent in
// smaller and smaller parts until those at fault stand alone. Topics have letters, digits and -$:._ in their names, at most
// 45 of them, because a table's name has at most 63 bytes, and do not begin with offsets_.
//
// # Receiving
//
// A group works through a topic in the order of the transactions that published, one message after the other, by whichever
// of its subscribers has the lock. That takes a connection, and an open transaction, for as long as there are messages.
// Acks are committed for up to a hundred messages at once: after a crash they come again.
//
// A message is seen when all transactions of the server that began to write before it have ended. Those of subscribers are
// among them: while a handler takes its time, at most ack_deadline, what is published meanwhile is not seen by any group
// of any topic. Handlers should be quick, or another broker be chosen.
//
// # Failures
//
// Permanent: a name that is refused; a missing table while auto_initialize is off; not authorised (42501); what the data is
// at fault for (classes 22 and 54, such as a UUID of more than 36 characters). An outage: everything that has to do with
// reaching the server, a wrong password, and its own troubles (classes 08, 25, 40, 53, 55, 57, 58). See PostgreSQL's
// documentation, appendix A.
package sql
