-- One lock for all outboxes of the database, because two may want to create the same PostgreSQL schema. The
-- transaction's, so that it works behind a transaction pooler. The number is of no meaning ("outboxmg").
SELECT pg_advisory_xact_lock(8031453476610927975)
