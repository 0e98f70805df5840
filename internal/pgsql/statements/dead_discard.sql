-- Deletes what a filter selects, at most $8 letters of the lanes $9. Keys that lose the last letter that failed are free:
-- those that only followed it go back to the outbox, parked, for release.sql to let the first of each go. Letters of the
-- key that don't hold it are each a failure of their own, and stay.
-- A key also is free when nothing is left that holds it, although what failed had been deleted by hand before.
-- Returns how many were deleted, how many of those that went back are older than $10 seconds, and the keys to be released.
-- Plan: Index Scans, over the holding letters of a key too, and Tid Scans; no joins, as in dead_requeue.sql.
WITH chosen AS MATERIALIZED (
  SELECT d.ctid AS tid, d.key, d.holds, d.tail FROM {dead} d
  WHERE d.lane = ANY ($9::int2[]) AND {filter} ORDER BY d.id, d.txid LIMIT $8::int8
),
touched AS MATERIALIZED (
  SELECT key, count(*) AS holding, count(*) FILTER (WHERE NOT tail) AS heads FROM chosen WHERE holds AND key <> '' GROUP BY key
),
free AS MATERIALIZED (
  SELECT t.key FROM touched t
  CROSS JOIN LATERAL (
    SELECT count(*) AS holding, count(*) FILTER (WHERE NOT h.tail) AS heads
    FROM (SELECT h.tail FROM {dead} h WHERE h.holds AND h.key = t.key ORDER BY h.key, h.id) h) a
  WHERE a.heads = t.heads AND (t.heads > 0 OR a.holding = t.holding)
),
rest AS MATERIALIZED (
  SELECT h.tid FROM free f
  CROSS JOIN LATERAL (SELECT h.ctid AS tid FROM {dead} h WHERE h.holds AND h.key = f.key ORDER BY h.key, h.id) h
  EXCEPT
  SELECT tid FROM chosen
),
deleted AS (
  DELETE FROM {dead} d WHERE d.ctid = ANY (ARRAY(SELECT tid FROM chosen)) RETURNING d.id
),
gone AS (
  DELETE FROM {dead} d WHERE d.ctid = ANY (ARRAY(SELECT tid FROM rest))
  RETURNING d.txid, d.id, d.lane, d.topic, d.key, d.uuid, d.payload, d.metadata, d.created_at
),
back AS (
  INSERT INTO {outbox} (txid, id, lane, topic, key, uuid, payload, metadata, created_at, holds, next_attempt_at)
  SELECT txid, id, lane, topic, key, uuid, payload, metadata, created_at, true, 'infinity' FROM gone
)
SELECT (SELECT count(*) FROM deleted),
  (SELECT count(*) FROM gone WHERE created_at < clock_timestamp() - make_interval(secs => $10::float8)),
  ARRAY(SELECT key FROM free)
