DROP INDEX {schema}.{outbox_topic};
DROP INDEX {schema}.{outbox_topic_waiting};
