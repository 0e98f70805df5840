DROP INDEX {outbox_topic};
DROP INDEX {outbox_topic_waiting};
