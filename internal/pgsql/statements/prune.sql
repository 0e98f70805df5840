-- Forgets up to $2 messages that the consumer $3 recorded longer ago than $1 seconds. Returns how many it found and how
-- many it deleted: fewer, when somebody else pruned at the same time. All delete in the order of places, so that they
-- don't deadlock.
-- Plan: Index Scan in the order of arrival, then a Tid Scan.
WITH old AS MATERIALIZED (
  SELECT ctid AS tid FROM {inbox} WHERE consumer = $3::text AND received_at < now() - make_interval(secs => $1::float8)
  ORDER BY consumer, received_at LIMIT $2::int
),
gone AS (
  DELETE FROM {inbox} WHERE ctid = ANY (ARRAY(SELECT tid FROM old)) RETURNING 1
)
SELECT (SELECT count(*) FROM old), (SELECT count(*) FROM gone)
