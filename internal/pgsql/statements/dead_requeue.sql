-- Moves what a filter selects, at most $8 letters of the lanes $9, back to the outbox, and with it all letters of the
-- keys that are quarantined. A statement of its own, because its snapshot must be younger than the lanes' locks.
-- Letters of quarantined keys are parked, for release.sql to let the first of each go. None is ready: a forwarder may have
-- proved that no ready row is left below a higher id.
-- Returns how many, how many of them are older than $10 seconds, and the keys to be released.
-- Plan: Nested Loop over the primary key for a few. There is no index for the letters of a key that don't hold it.
WITH chosen AS MATERIALIZED (
  SELECT d.id, d.txid, d.key FROM {dead} d
  WHERE d.lane = ANY ($9::int2[]) AND {filter} ORDER BY d.id, d.txid LIMIT $8::int8
),
quarantined AS MATERIALIZED (
  SELECT k.key FROM (SELECT DISTINCT key FROM chosen WHERE key <> '') k
  WHERE (SELECT h.id FROM {dead} h WHERE h.holds AND h.key = k.key ORDER BY h.key, h.id LIMIT 1) IS NOT NULL
),
gone AS (
  DELETE FROM {dead} d
  USING (
    SELECT id, txid FROM chosen
    UNION
    SELECT k.id, k.txid FROM {dead} k WHERE k.key IN (SELECT key FROM quarantined)
  ) m
  WHERE d.id = m.id AND d.txid = m.txid
  RETURNING d.txid, d.id, d.lane, d.topic, d.key, d.uuid, d.payload, d.metadata, d.created_at
),
back AS (
  INSERT INTO {outbox} (txid, id, lane, topic, key, uuid, payload, metadata, created_at, holds, next_attempt_at)
  SELECT g.txid, g.id, g.lane, g.topic, g.key, g.uuid, g.payload, g.metadata, g.created_at, q.key IS NOT NULL,
    CASE WHEN q.key IS NULL THEN (SELECT clock_timestamp()) ELSE 'infinity' END
  FROM gone g LEFT JOIN quarantined q ON q.key = g.key
)
SELECT (SELECT count(*) FROM gone),
  (SELECT count(*) FROM gone WHERE created_at < clock_timestamp() - make_interval(secs => $10::float8)),
  ARRAY(SELECT key FROM quarantined)
