-- Parks again what was released behind a row that has now failed: $1 keys, $2 the failed rows' ids. At most a
-- release's worth a key. Never waits for an outsider; a row passed over costs time, not order.
-- Plan: Index Scan on the holding rows of a key, then a Tid Scan.
WITH released AS MATERIALIZED (
  SELECT r.tid FROM unnest($1::text[], $2::int8[]) k(key, id)
  CROSS JOIN LATERAL (
    SELECT o.ctid AS tid FROM {outbox} o
    WHERE o.holds AND o.key = k.key AND o.id > k.id AND o.next_attempt_at < 'infinity'
    ORDER BY o.key, o.id LIMIT 128 FOR UPDATE SKIP LOCKED) r
)
UPDATE {outbox} SET next_attempt_at = 'infinity' WHERE ctid = ANY (ARRAY(SELECT tid FROM released))
