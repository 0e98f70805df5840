// Outbox operates a transactional outbox on PostgreSQL: it makes the tables, forwards messages to a broker, and looks after
// those that could not be forwarded.
//
//	go install github.com/watermill-outbox/watermill-outbox/cmd/outbox@latest
package main
