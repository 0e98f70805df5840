-- Wakes a sleeping forwarder. Optional: without it forwarders poll. Leave it out when transactions that write to the
-- outbox are PREPAREd (two-phase commit): PostgreSQL refuses to PREPARE one that has notified.
--
-- is_called of this sequence says that a forwarder sleeps. A sequence, because setting it is not transactional and is
-- visible to writers at once. NOTIFY takes a lock of the whole cluster at commit, so writers must not ring for nothing.
CREATE SEQUENCE {doorbell} AS bigint INCREMENT 1 CACHE 1;

-- SECURITY DEFINER: a writer needs no right to read the doorbell. Every name is qualified and no operator is used, so the
-- caller's search_path does not matter; pinning one for the function, and reading is_called by a query, took twice as
-- long, at every commit.
CREATE FUNCTION {doorbell_function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS {dollar}
BEGIN
  IF pg_catalog.pg_sequence_last_value({doorbell_literal}::pg_catalog.regclass) IS NOT NULL THEN  -- NULL: not called
    PERFORM pg_catalog.pg_notify({channel_literal}, '');
  END IF;
  RETURN NULL;
END {dollar};
REVOKE ALL ON FUNCTION {doorbell_function}() FROM PUBLIC;
CREATE TRIGGER {doorbell_trigger} AFTER INSERT ON {outbox} FOR EACH STATEMENT EXECUTE FUNCTION {doorbell_function}();
