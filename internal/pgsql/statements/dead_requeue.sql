-- Moves what a filter selects, at most $8 letters of the lanes $9, back to the outbox, and with it all letters of the
-- keys that are quarantined. A statement of its own, because its snapshot must be younger than the lanes' locks.
-- Letters of quarantined keys are parked, for release.sql to let the first of each go. None is ready: a forwarder may have
-- proved that no ready row is left below a higher id.
-- Returns how many, how many of them are older than $10 seconds, and the keys to be released.
-- No joins, which would be in the hands of the statistics: whether a key is quarantined is asked letter by letter, by a
-- probe of the index, in the statement's snapshot, in which nothing is gone yet.
-- Plan: Index Scans, one probe a letter, and a Tid Scan. All letters are looked through only if a key is quarantined, since
-- there is no index for those of its letters that don't hold it, few as they are.
WITH chosen AS MATERIALIZED (
  SELECT d.ctid AS tid, d.key FROM {dead} d
  WHERE d.lane = ANY ($9::int2[]) AND {filter} ORDER BY d.id, d.txid LIMIT $8::int8
),
quarantined AS MATERIALIZED (
  SELECT k.key FROM (SELECT DISTINCT key FROM chosen WHERE key <> '') k
  WHERE (SELECT h.id FROM {dead} h WHERE h.holds AND h.key = k.key ORDER BY h.key, h.id LIMIT 1) IS NOT NULL
),
moved AS MATERIALIZED (
  SELECT tid FROM chosen
  UNION ALL
  SELECT h.tid FROM quarantined q
  CROSS JOIN LATERAL (SELECT h.ctid AS tid FROM {dead} h WHERE h.holds AND h.key = q.key ORDER BY h.key, h.id) h
  UNION ALL
  SELECT k.ctid FROM {dead} k
  WHERE (SELECT key FROM quarantined LIMIT 1) IS NOT NULL AND NOT k.holds AND k.key <> ''
    AND CASE WHEN (SELECT h.id FROM {dead} h WHERE h.holds AND h.key = k.key ORDER BY h.key, h.id LIMIT 1) IS NOT NULL
      THEN k.key IN (SELECT key FROM quarantined) END
),
gone AS (
  DELETE FROM {dead} d WHERE d.ctid = ANY (ARRAY(SELECT tid FROM moved))
  RETURNING d.txid, d.id, d.lane, d.topic, d.key, d.uuid, d.payload, d.metadata, d.created_at,
    (SELECT h.id FROM {dead} h WHERE h.holds AND h.key = d.key AND d.key <> '' ORDER BY h.key, h.id LIMIT 1) IS NOT NULL AS holds
),
back AS (
  INSERT INTO {outbox} (txid, id, lane, topic, key, uuid, payload, metadata, created_at, holds, next_attempt_at)
  SELECT txid, id, lane, topic, key, uuid, payload, metadata, created_at, holds,
    CASE WHEN holds THEN 'infinity' ELSE (SELECT clock_timestamp()) END
  FROM gone
)
SELECT (SELECT count(*) FROM gone),
  (SELECT count(*) FROM gone WHERE created_at < clock_timestamp() - make_interval(secs => $10::float8)),
  ARRAY(SELECT key FROM quarantined)
