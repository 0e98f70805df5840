-- Takes the lanes of what a filter selects, at most $8 letters, in ascending order, so that two operators don't wait for
-- one another in a circle. It waits for the claims that own them: they may still see the quarantine that is about to end.
WITH lanes AS MATERIALIZED (
  SELECT DISTINCT lane FROM (
    SELECT d.lane FROM {dead} d WHERE {filter} ORDER BY d.id, d.txid LIMIT $8::int8
  ) m ORDER BY lane
)
SELECT l.lane FROM lanes l CROSS JOIN LATERAL pg_advisory_xact_lock({lock_class}, l.lane) AS locked
