-- For watermill-sql subscribers on the outbox, which read by topic. Optional: the forwarder never uses it.
CREATE INDEX {outbox_topic}         ON {outbox} (topic, id) WHERE next_attempt_at IS NULL;
CREATE INDEX {outbox_topic_waiting} ON {outbox} (topic, next_attempt_at, id) WHERE next_attempt_at IS NOT NULL;
