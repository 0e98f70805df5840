-- Wakes a sleeping forwarder. Optional: without it forwarders poll. Leave it out when transactions that write to the
-- outbox are PREPAREd (two-phase commit): PostgreSQL refuses to PREPARE one that has notified.
--
-- is_called of this sequence says that a forwarder sleeps. A sequence, because setting it is not transactional and is
-- visible to writers at once. NOTIFY takes a lock of the whole cluster at commit, so writers must not ring for nothing.
CREATE SEQUENCE {doorbell} AS bigint INCREMENT 1 CACHE 1;

-- SECURITY DEFINER: a writer needs no right to read the doorbell. The search path is pinned against the caller's.
CREATE FUNCTION {doorbell_function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS {dollar}
BEGIN
  IF (SELECT is_called FROM {doorbell}) THEN
    PERFORM pg_notify({channel_literal}, '');
  END IF;
  RETURN NULL;
END {dollar};
REVOKE ALL ON FUNCTION {doorbell_function}() FROM PUBLIC;
CREATE TRIGGER {doorbell_trigger} AFTER INSERT ON {outbox} FOR EACH STATEMENT EXECUTE FUNCTION {doorbell_function}();
