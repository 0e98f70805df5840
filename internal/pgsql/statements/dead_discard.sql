-- Deletes what a filter selects, at most $8 letters of the lanes $9. Keys that lose the last letter that failed are free:
-- those that only followed it go back to the outbox, parked, for release.sql to let the first of each go. Letters of the
-- key that don't hold it are each a failure of their own, and stay.
-- A key also is free when nothing is left that holds it, although what failed had been deleted by hand before.
-- Returns how many were deleted, how many of those that went back are older than $10 seconds, and the keys to be released.
-- Plan: Nested Loops over the primary key, and over the holding letters of a key.
WITH chosen AS MATERIALIZED (
  SELECT d.id, d.txid, d.key, d.holds, d.tail FROM {dead} d
  WHERE d.lane = ANY ($9::int2[]) AND {filter} ORDER BY d.id, d.txid LIMIT $8::int8
),
touched AS MATERIALIZED (
  SELECT key, bool_or(NOT tail) AS head FROM chosen WHERE holds AND key <> '' GROUP BY key
),
rest AS MATERIALIZED (
  SELECT h.id, h.txid, h.key, h.tail FROM touched t JOIN {dead} h ON h.holds AND h.key = t.key
  LEFT JOIN chosen c ON c.id = h.id AND c.txid = h.txid
  WHERE c.id IS NULL
),
free AS MATERIALIZED (
  SELECT t.key FROM touched t LEFT JOIN rest r ON r.key = t.key
  GROUP BY t.key, t.head HAVING bool_and(coalesce(r.tail, true)) AND (t.head OR count(r.id) = 0)
),
deleted AS (
  DELETE FROM {dead} d USING chosen c WHERE d.id = c.id AND d.txid = c.txid RETURNING d.id
),
gone AS (
  DELETE FROM {dead} d USING rest r JOIN free f ON f.key = r.key
  WHERE d.id = r.id AND d.txid = r.txid
  RETURNING d.txid, d.id, d.lane, d.topic, d.key, d.uuid, d.payload, d.metadata, d.created_at
),
back AS (
  INSERT INTO {outbox} (txid, id, lane, topic, key, uuid, payload, metadata, created_at, holds, next_attempt_at)
  SELECT txid, id, lane, topic, key, uuid, payload, metadata, created_at, true, 'infinity' FROM gone
)
SELECT (SELECT count(*) FROM deleted),
  (SELECT count(*) FROM gone WHERE created_at < clock_timestamp() - make_interval(secs => $10::float8)),
  ARRAY(SELECT key FROM free)
