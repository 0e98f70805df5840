-- Step 3 of the claim: the rows of the lanes just locked. A statement of its own, because its snapshot must be younger
-- than the locks: an older one can miss a row that has just failed, and overtake it.
-- Kinds: 0 due, 1 ready, 2 late (of a long transaction that has ended). First comes a row of kind -1 with the
-- statement's snapshot, the transaction's own xid, assigned only here, and the row limit of a lane; no rows, no header.
-- $1 lanes, $2 floors, $3 rows a claim, $4 bytes a claim, $5 whether one larger row may come along,
-- $6 to $8 the long transactions: lane, xid, and the id from which their rows may still be.
-- Each row is locked by a LATERAL of its own, so that a row locked by an outsider is seen, not skipped; it must return
-- the very ctid that was scanned, since older minor versions lock a moved row's old place.
-- The look-up by txid says "IS NULL" by a function, as in choose_lanes.sql, so that no index but the primary key will do.
-- Plan: index scans in the index's order under LIMIT, then a TID scan a row; 1.4 to 4 ms at 500 rows in every state
-- tried (held transactions, 200,000 parked or delayed rows, stale statistics).
WITH l AS MATERIALIZED (
  SELECT lane, f.floor FROM unnest(current_setting('outbox.lanes')::int2[]) c(lane)
  JOIN unnest($1::int2[], $2::int8[]) f(lane, floor) USING (lane)
),
allowed AS MATERIALIZED (SELECT greatest(1, $3::int / greatest(1, count(*)))::int AS rows FROM l),
found AS MATERIALIZED (
  SELECT 0 AS kind, r.* FROM l CROSS JOIN LATERAL (
    SELECT o.ctid AS tid, o.txid, o.id, o.lane, o.key, o.holds, coalesce(octet_length(o.payload), 0) + pg_column_size(o.metadata) AS size
    FROM {outbox} o WHERE o.lane = l.lane AND o.next_attempt_at <= now()
    ORDER BY o.lane, o.next_attempt_at, o.id LIMIT (SELECT rows FROM allowed)) r
  UNION ALL
  SELECT 1, r.* FROM l CROSS JOIN LATERAL (
    SELECT o.ctid, o.txid, o.id, o.lane, o.key, o.holds, coalesce(octet_length(o.payload), 0) + pg_column_size(o.metadata)
    FROM {outbox} o WHERE o.lane = l.lane AND o.id >= l.floor AND o.next_attempt_at IS NULL
    ORDER BY o.lane, o.id LIMIT (SELECT rows FROM allowed)) r
  UNION ALL
  SELECT 2, r.* FROM l
  JOIN unnest($6::int2[], $7::text[]::xid8[], $8::int8[]) x(lane, txid, low) USING (lane)
  CROSS JOIN LATERAL (
    SELECT o.ctid, o.txid, o.id, o.lane, o.key, o.holds, coalesce(octet_length(o.payload), 0) + pg_column_size(o.metadata)
    FROM {outbox} o WHERE o.txid = x.txid AND o.lane = l.lane AND o.id >= x.low AND o.id < l.floor AND num_nulls(o.next_attempt_at) = 1
    ORDER BY o.txid, o.lane, o.id LIMIT (SELECT rows FROM allowed)) r
  WHERE pg_visible_in_snapshot(x.txid, pg_current_snapshot())
),
sized AS MATERIALIZED (  -- by id, up to the budget; of the larger ones at most the first, and only when allowed
  SELECT f.*, true AS fits FROM found f WHERE (SELECT sum(size) FROM found) <= $4::int8
  UNION ALL
  SELECT f.*, CASE WHEN f.size > $4::int8
    THEN $5::bool AND f.id = (SELECT min(id) FROM found WHERE size > $4::int8)
    ELSE sum(CASE WHEN f.size > $4::int8 THEN 0 ELSE f.size END) OVER (ORDER BY f.id ROWS UNBOUNDED PRECEDING) <= $4::int8 END
  FROM found f WHERE (SELECT sum(size) FROM found) > $4::int8
),
keys AS MATERIALIZED (
  SELECT k.key,
    ARRAY(SELECT o.id FROM {outbox} o WHERE o.holds AND o.key = k.key ORDER BY o.key, o.id LIMIT (SELECT rows FROM allowed)) AS heads,
    (SELECT d.id FROM {dead} d WHERE d.holds AND d.key = k.key ORDER BY d.key, d.id LIMIT 1) IS NOT NULL AS quarantined
  FROM (SELECT DISTINCT key FROM found WHERE key <> '') k
),
mine AS MATERIALIZED (
  SELECT o.ctid AS tid, o.topic, o.uuid, o.payload, o.metadata, o.attempts
  FROM {outbox} o WHERE o.ctid = ANY (ARRAY(SELECT tid FROM sized WHERE fits)) FOR UPDATE SKIP LOCKED
)
SELECT -1 AS kind, NULL::tid AS tid, NULL::text AS txid, NULL::int8 AS id, NULL::int2 AS lane, NULL::text AS key, NULL::bool AS holds,
  NULL::int8 AS size, NULL::bool AS fits, NULL::bool AS locked, NULL::int8[] AS heads, NULL::bool AS quarantined,
  NULL::text AS topic, NULL::text AS uuid, NULL::bytea AS payload, NULL::jsonb AS metadata, NULL::int4 AS attempts,
  pg_current_snapshot()::text AS snapshot, pg_current_xact_id()::text AS own, (SELECT rows FROM allowed) AS allowed
WHERE (SELECT count(*) FROM found) > 0
UNION ALL
SELECT s.kind, s.tid, CASE WHEN s.kind = 2 THEN s.txid::text END, s.id, s.lane, s.key, s.holds,
  s.size, s.fits, o.tid IS NULL, nullif(k.heads, '{}'), coalesce(k.quarantined, false),
  o.topic, o.uuid, o.payload, o.metadata, o.attempts,
  NULL, NULL, NULL
FROM sized s
LEFT JOIN keys k ON k.key = s.key
LEFT JOIN mine o ON o.tid = s.tid
