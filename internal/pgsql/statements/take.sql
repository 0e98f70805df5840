-- What a watermill-sql subscriber gets next of topic $1: due rows, then ready ones, $2 at most, each locked.
-- The inner limit, a constant, is what the planner goes by in a plan for any values; the outer one stops the scan, and
-- with it the locking. A row that was changed since the snapshot is judged again by its newest version.
-- Each row tells the places of its batch up to itself, since the subscriber acknowledges with the last row alone, and
-- whether one of those holds back others. Places are stable: the rows are locked.
-- Plan: two Index Scans on the indexes of topics; everything else is about what they found.
WITH due AS MATERIALIZED (
  SELECT r.* FROM (
    SELECT o.ctid AS tid, o.id, o.key, o.uuid, o.payload, o.metadata, o.holds FROM {outbox} o
    WHERE o.topic = $1::text AND o.next_attempt_at <= now()
    ORDER BY o.topic, o.next_attempt_at, o.id LIMIT 1000 FOR UPDATE SKIP LOCKED) r
  LIMIT $2::int
),
ready AS MATERIALIZED (
  SELECT r.* FROM (
    SELECT o.ctid AS tid, o.id, o.key, o.uuid, o.payload, o.metadata, o.holds FROM {outbox} o
    WHERE o.topic = $1::text AND o.next_attempt_at IS NULL
    ORDER BY o.topic, o.id LIMIT 1000 FOR UPDATE SKIP LOCKED) r
  LIMIT $2::int - (SELECT count(*) FROM due)
)
SELECT row_number() OVER batch AS position, uuid, key, payload, metadata::text,
  (array_agg(tid) OVER batch)::text AS places, bool_or(holds) OVER batch AS holding
FROM (SELECT * FROM due UNION ALL SELECT * FROM ready) r
WINDOW batch AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
ORDER BY id
