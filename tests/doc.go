// Package tests tries to break the outbox's guarantees with real processes, real kills, and faults between the library
// and a real PostgreSQL. The test binary runs itself again as forwarder and consumer processes; what they publish goes to a
// ledger in the parent, which acknowledges every message, so that a kill takes nothing off the record.
//
// OUTBOX_SOAK=10 makes the load tests do ten times as much.
package tests
