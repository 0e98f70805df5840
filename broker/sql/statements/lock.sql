-- One after the other makes tables: side by side, CREATE TABLE IF NOT EXISTS can fail with unique_violation.
SELECT pg_advisory_xact_lock(hashtextextended('watermill-outbox: broker/sql makes tables', 0))
