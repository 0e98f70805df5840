// Outbox operates a transactional outbox on PostgreSQL: it makes the tables, forwards messages to a broker, and looks after
// those that could not be forwarded. A service that writes into the outbox, in any language, needs nothing else.
//
//	go install github.com/watermill-outbox/watermill-outbox/cmd/outbox@latest
//
//	outbox migrate up --database postgres://owner@localhost/shop
//	outbox forward    --database postgres://forwarder@localhost/shop --broker kafka://localhost:9092
//	outbox status     --database postgres://operator@localhost/shop
//	outbox dead list  --database postgres://operator@localhost/shop
//
// "outbox help", and --help after any command, tell the rest. The commands are:
//
//	migrate up|status|print            make the tables, look at them, or print their SQL for other tools
//	grants                             print what a database role needs: each of the commands works with little
//	forward                            forward messages until SIGTERM, which lets those in flight end
//	status                             count messages by state; a check that alerts, with --max-dead and --max-age
//	dead list|show|requeue|discard     look after dead letters
//	publish                            write messages from standard input into the outbox
//	consume                            print messages as they come from the broker
//	config check|print|example         tell what is wrong with the settings, what they are, and what there may be
//	completion                         complete commands in bash, zsh, fish and PowerShell
//	version                            print the version
//
// # Settings
//
// Every field of outbox.ForwarderConfig that is no function is a setting. They come from a file in YAML (--config, or
// OUTBOX_CONFIG), from flags, which are stronger, and from the environment, which is strongest: batch_size is --batch-size,
// and OUTBOX_BATCH_SIZE; max_attempts in the mapping retry is --retry-max-attempts, and OUTBOX_RETRY_MAX_ATTEMPTS.
//
//	database: postgres://forwarder@localhost/shop
//	broker: kafka://localhost:9092
//	workers: 8
//	retry:
//	  max_attempts: 20
//
// A file may have several outboxes, which one process forwards. What they share stands at the top level; what a flag or a
// variable says is for all of them.
//
//	outboxes:
//	  - table: orders_outbox
//	  - table: invoices_outbox
//	    database: postgres://forwarder:${INVOICES_PASSWORD}@localhost/invoices
//
// All mistakes are told at once, each with file, line and column, before anything is done: names that nothing is known of
// (a variable that begins with OUTBOX_ too, unless Kubernetes sets it for a service), values that can't be read or are out of
// range, URLs that no driver opens.
//
// Passwords are best kept in the environment: PGPASSWORD or a ~/.pgpass, BROKER_PASSWORD, or a variable that the file names
// by ${…}. No message of the command, no log and no "config print" has one.
//
// # Health
//
// With --http, forward serves /healthz (the process lives), /readyz (every forwarder runs, and nothing is in its way; else
// 503 and the reasons, as JSON for who accepts it) and /metrics for Prometheus: counters outbox_forwarded_total,
// outbox_published_total, outbox_publish_failures_total, outbox_retries_total, outbox_parked_total,
// outbox_dead_letters_total and outbox_claimed_total, histograms outbox_publish_duration_seconds and
// outbox_settle_duration_seconds, gauges outbox_messages by state, outbox_quarantined_keys, outbox_oldest_ready_age_seconds,
// outbox_forwarder_healthy and outbox_stats_up. All have the label outbox, its name. Counting reads the whole outbox, so the
// gauges may be ten seconds old, and older for large ones.
//
// # Exit codes
//
//	0  done
//	1  it could not be done
//	2  flags, arguments or settings are wrong; nothing was done
//	3  the tables are missing or don't fit: run "outbox migrate up"
//	4  "outbox status" found more than its limits allow
//
// After SIGTERM or SIGINT, forward and consume end with 0; another signal, a second or more later, ends any command at once.
package main
