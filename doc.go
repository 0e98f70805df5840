// Package outbox is a transactional outbox and inbox for Watermill on PostgreSQL.
//
// A [Publisher] writes messages into a table, in the transaction that changes the business's rows. A [Forwarder] takes
// them from there to any Watermill publisher: Kafka, NATS, RabbitMQ, … Any number of forwarders may share one outbox. An
// [Inbox] is a middleware that lets a message take effect once, though it may come twice.
//
//	tx, _ := db.BeginTx(ctx, nil)
//	publisher, _ := outbox.NewPublisher(tx, outbox.PublisherConfig{}, logger)
//	publisher.Publish("orders", msg)          // one transaction with your own statements
//	tx.Commit()
//
//	forwarder, _ := outbox.NewForwarder(pool, kafka, outbox.ForwarderConfig{}, logger)
//	forwarder.Run(ctx)                        // until ctx is done
//
//	inbox, _ := outbox.NewInbox(db, outbox.InboxConfig{}, logger)
//	router.AddMiddleware(inbox.Middleware)    // handlers find their transaction with TxFromContext
//
// [DeadLetters] shows the messages that could not be published, puts them back or discards them. [SchemaAdapter] and
// [OffsetsAdapter] let the Publisher and Subscriber of watermill-sql v3 work on the outbox, and package sqlv4 those of v4.
// [Migrate] makes the tables, [CheckSchema] says whether they fit, [Grants] what each database role needs, [ReadStats] what
// is in them.
//
// # Guarantees
//
//   - A message and the business's rows of its transaction commit together or not at all.
//   - Every committed message reaches the broker at least once, whatever is killed, and whenever.
//   - A message is settled only after the broker acknowledged that very message. A batch that stops half way settles
//     exactly those that were acknowledged.
//   - Messages with the same key (see [SetKey]) reach the broker in the order in which they were published by
//     transactions that were themselves ordered, as those are that lock the same row first. A message that fails holds
//     back the later ones of its key, and no others.
//   - A graceful stop loses nothing and, if the publishes in flight end within CloseTimeout, sends nothing twice.
//   - An outage of the broker or of the database uses up no attempts and makes no dead letters.
//   - A message that can't be published delays no other key, and ends complete and with its error in the dead letters.
//   - A consumer's effects happen once per message id: the id, the effects and the messages that its handler returns commit
//     in one transaction.
//   - A lost notification, a pooler in transaction mode, or a transaction left open anywhere in the cluster costs
//     latency at most. What a claim costs does not depend on history, backlog, delayed or dead messages, nor on
//     transactions that others hold open. (While one is, delayed and retried messages are exempt from the last.)
//
// Not promised: that the broker gets a message only once (an [Inbox] knows its UUID again); any order between keys, or
// of messages without one; the order of transactions that ran side by side; that a delayed message takes its place
// before it is due. And nothing can be promised for a publisher that returns nil before the broker has the message:
// make it synchronous.
//
// # What happens when
//
//	the writer dies before COMMIT            neither its rows nor its messages were ever there
//	the writer's COMMIT gets no answer       both are there or neither is; the forwarder sees what is there
//	a forwarder is killed                    its transaction is rolled back; what it had in flight is sent again by
//	                                         another, in the same order by key
//	its machine or network vanishes          the same, once the server notices: at the latest after PassTimeout +
//	                                         PublishTimeout + 30 s of silence, 50 s by default. Until then the messages
//	                                         it had claimed, and those in the same lanes, wait
//	it is stopped (Close, Run's context)     publishes in flight end, what was acknowledged is settled, nothing else
//	                                         starts
//	its connection is cut                    as if killed, but it goes on by itself on another connection
//	COMMIT of a settlement gets no answer    settled or not, the server knows; nothing acknowledged is lost, some may be
//	                                         sent again
//	the server restarts, fails over          as with a cut connection. A standby that lacks the last commits has lost
//	                                         orders and messages together, or sends what was settled again
//	the server is read-only for a while      it waits and tries again; Health tells
//	the broker is down                       nothing is charged to the messages; it tries again at growing intervals, up
//	                                         to PollInterval between passes and 30 s for one message; Health tells
//	the broker refuses one message           charged, if another publish shows that the broker lives; then it waits and
//	                                         is tried again, its key behind it; after MaxAttempts a dead letter
//	a publish hangs                          it counts as failed after PublishTimeout; should it succeed later, the
//	                                         message arrives twice
//	the publisher panics                     a failure of that message. A hook must not panic
//	somebody's SQL wrote odd metadata        that row alone becomes a dead letter
//	the server refuses to store a failure    what was acknowledged beside it is settled; the rest is tried again
//	somebody else locks a message's row      it and the later ones of its key wait; now and then the server logs that a
//	                                         claim could not obtain the lock
//	a notification or the listener is lost   found by the poll, PollInterval at the latest
//	LISTEN goes through a pooler             the forwarder sees that it hears nothing, logs it once, and polls
//
// And with an inbox:
//
//	a copy comes later                       it is skipped, and acknowledged
//	a copy comes meanwhile                   it waits: skipped when the first has committed, handled when it has rolled
//	                                         back; under repeatable read or serializable it may fail with SQLSTATE 40001
//	                                         instead, and has to come again
//	the handler fails or panics              nothing of it was ever there, its id not either; the next try is the first
//	the consumer is killed                   the same, once the server notices
//	COMMIT gets no answer                    the message is not acknowledged; when it comes again, the server knows
//	the message's context ends               the handler sees it; what it has done is committed if it returns nil
//	the database is down                     the message is not acknowledged
//	a copy comes after Retention             it takes effect again
//
// # Which setting when
//
//   - More throughput: first PublishConcurrency, if the broker takes long to answer and there are many keys; then
//     Workers, with the pool's MaxConns; then more processes. One key alone is as fast as the broker answers.
//   - Transactions must be short: smaller BatchSize, PassTimeout and PublishTimeout. A claim's transaction is open while
//     its messages are published.
//   - Large messages: BatchBytes bounds the memory of a process; PublisherConfig.MaxPayloadBytes refuses what the broker
//     would not take while the writer can still react.
//   - A sensitive broker: MaxPerSecond. It is the forwarder's; n forwarders publish n times as much.
//   - Messages that can't be published: mark the error with [Permanent], or tell by ForwarderConfig.Classify, so that
//     they become dead letters at once. RetryPolicy.MaxAttempts -1 never gives up.
//   - What follows a dead letter: OnDead is [QuarantineKey], which keeps the order and stops the key, or [ContinueKey],
//     which leaves a gap.
//   - A pooler in transaction mode: ForwarderConfig.ListenDSN, or PollOnly.
//   - Two-phase commit: Schema.NoDoorbell, since PostgreSQL can't PREPARE a transaction that has notified.
//   - Tests, cron, serverless: [Forwarder.RunOnce].
//
// # What not to do
//
// Nobody but this library may set next_attempt_at to NULL, call setval on the sequence, or insert explicit ids while a
// forwarder runs: it would lose or overtake messages. Reading, and deleting rows by hand, is safe.
package outbox
