-- Releases the first 64 holding rows of each of the keys that are given as $1, or by delete_acked.sql: due at once, still holding, so that newcomers queue up behind
-- them. 64, because releasing and parking a whole tail of 16,000 at each failure was 20 times slower.
-- One time a key, not before that of any row of it released earlier: a clock that was set back must not turn the order
-- of release round. Never waits for an outsider: a key whose release came out short is returned, to be repeated. Rows
-- behind the one that an outsider has locked stay parked: they could not go before it, and would be parked again by each
-- claim and released by the next, for as long as it is locked.
-- Plan: Index Scan on the first holding rows of a key, then a Tid Scan.
WITH head AS MATERIALIZED (
  SELECT k.key, r.tid, r.id, r.next_attempt_at FROM unnest({keys}::text[]) k(key)
  CROSS JOIN LATERAL (
    SELECT o.ctid AS tid, o.id, o.next_attempt_at FROM {outbox} o
    WHERE o.holds AND o.key = k.key ORDER BY o.key, o.id LIMIT 64) r
),
due AS MATERIALIZED (
  SELECT key, greatest((SELECT clock_timestamp()), max(next_attempt_at) FILTER (WHERE next_attempt_at < 'infinity')) AS at
  FROM head GROUP BY key
),
free AS MATERIALIZED (
  SELECT h.key, o.tid, d.at FROM head h JOIN due d USING (key)
  CROSS JOIN LATERAL (
    SELECT o.ctid AS tid FROM {outbox} o WHERE o.ctid = h.tid AND o.next_attempt_at = 'infinity' FOR UPDATE SKIP LOCKED) o
  WHERE h.next_attempt_at = 'infinity' AND o.tid = h.tid
),
short AS MATERIALIZED (
  SELECT h.key, min(h.id) AS id FROM head h LEFT JOIN free f ON f.tid = h.tid
  WHERE h.next_attempt_at = 'infinity' AND f.tid IS NULL GROUP BY h.key
),
freed AS (
  UPDATE {outbox} o SET next_attempt_at = f.at FROM free f LEFT JOIN short s ON s.key = f.key
  WHERE o.ctid = f.tid AND (s.id IS NULL OR o.id < s.id)
)
SELECT key FROM short
