-- Keys whose first holding row is parked: somebody deleted the failed row in front of it by hand, and nothing would ever
-- release the rest.
-- Plan: a loose index scan, one probe a key, whatever the length of their tails.
WITH RECURSIVE heads AS (
  (SELECT o.key, o.lane, o.next_attempt_at FROM {outbox} o WHERE o.holds ORDER BY o.key, o.id LIMIT 1)
  UNION ALL
  SELECT n.key, n.lane, n.next_attempt_at FROM heads h
  CROSS JOIN LATERAL (
    SELECT o.key, o.lane, o.next_attempt_at FROM {outbox} o
    WHERE o.holds AND o.key > h.key ORDER BY o.key, o.id LIMIT 1) n
)
SELECT lane, key FROM heads WHERE next_attempt_at = 'infinity' LIMIT 1000
