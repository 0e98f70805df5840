// Package sql is the broker driver for topics in another PostgreSQL database, as watermill-sql keeps them. It is for those
// who have no broker, and whose services have databases of their own.
//
//	postgres://user:password@host:5432,host:5432/database?parameter=value
//	postgresql://…
//
// The tables are those of watermill-sql v3's DefaultPostgreSQLSchema and DefaultPostgreSQLOffsetsAdapter with a payload of
// bytea, so that any bytes will do: a topic orders is the table watermill_orders, and its groups' offsets are the table
// watermill_offsets_orders. Its own publishers and subscribers work on them if their GeneratePayloadType gives BYTEA.
//
// # Parameters
//
//	schema            the PostgreSQL schema of the tables, which must exist; defaults to the first of the search_path
//	create_topics     true (the default) makes the tables of a topic that has none, which the role must be allowed to;
//	                  with false a message to an unknown topic becomes a dead letter
//	sslmode           disable, allow, prefer (the default), require, verify-ca or verify-full; sslrootcert, sslcert and
//	                  sslkey name the files
//	application_name  defaults to watermill-outbox
//	target_session_attrs, search_path, default_query_exec_mode   as in pgx; the last one for poolers
//	pool_max_conns    how many connections the publisher uses at most; defaults to 10
//	poll_interval     how often a subscriber looks for messages when there were none; defaults to 200ms
//	resend_interval   how long it waits after a nack; defaults to 1s
//	ack_deadline      how long a handler may take for one message before it is delivered again; defaults to 30s
//	batch_size        how many messages a subscriber takes in one transaction; defaults to 100
//
// What is in neither the URL nor BROKER_…, the variables of libpq may say (PGUSER, PGPASSWORD, PGDATABASE, …).
//
// # Publishing
//
// A batch is one transaction, with one statement for each topic. Should PostgreSQL refuse it for what a message contains,
// its halves are tried one after the other, and so on, until those that are to blame stand alone. A uuid has 36 characters at
// most, that is watermill-sql's column. Messages stay in their tables until somebody deletes them.
//
// # Subscribing
//
// The subscribers of a group take turns: one of them has the group's row locked while it handles a batch, and the others
// wait. So a group gets all of a topic, not only each key, in the order in which it was published. Each Subscribe uses a
// connection of its own, whatever pool_max_conns is. The tables are made by Subscribe, or by SubscribeInitialize.
//
// A subscriber reads what was committed before the oldest transaction began that still writes anywhere on the server, and
// its own transaction is one that writes, until the batch is handled. Slow handlers therefore hold up what is published
// meanwhile, for all groups and topics: give them a small batch_size. The server's idle_in_transaction_session_timeout has to
// be longer than ack_deadline.
//
// # Failures
//
// Permanent: a topic's name that can't be a table's (an *InvalidTopicError), metadata that is not UTF-8, a value that a
// column can't take or that is too large (SQLSTATE classes 22 and 54), a missing right (42501), a table that is missing
// while create_topics is off (42P01).
//
// An outage: whatever keeps from reaching the server, also its refusal to let us in, and one that is read only (25006);
// classes 08, 53, 55, 57 and 58. Deadlocks and the like (class 40) too, for no message is at fault. The code is looked at,
// whatever the text's language; see PostgreSQL's appendix A.
package sql
