-- Step 3 of the claim: the rows of the lanes just locked. A statement of its own, because its snapshot must be younger
-- than the locks: an older one can miss a row that has just failed, and overtake it.
-- $1 lanes, $2 floors, $3 rows a claim, $4 bytes a claim, $5 the id of a larger row that may come along, 0 for none,
-- $6 to $8 the long transactions: lane, xid, and the id from which their rows may still be, $9 whether the small ones get
-- the bytes first.
-- Returns, by kind: -1 first, in topic and uuid the statement's snapshot and the transaction's own xid, which is assigned
-- only here, in size the row limit of a lane; no rows, no header. -2 a key with what holds it: the ids of its first holding
-- rows, in holds whether it is quarantined. Then the rows, 0 due, 1 ready, 2 late (of a long transaction that has ended);
-- state is 0 of those taken, 1 of those above the budget, 2 of those that an outsider has locked.
-- The statement has two forms. Mostly no outsider has locked a row: the scans lock as they go, FOR UPDATE NOWAIT, and all
-- that they found is free. A locked row fails the claim; those that follow scan without locking, and free is what is then
-- unlocked where it was found. A row that an outsider has moved in between could not: older minor versions give it at its
-- new place, which is no row of ours. The first form saves a sixth.
-- What holds a key is asked only if anything holds one. That is first one look at the whole index, if it is small enough
-- for dead entries not to matter, then one at all keys together.
-- The look-up by txid says "IS NULL" by a function, as in choose_lanes.sql, so that no index but the primary key will do.
-- Plan: index scans in the index's order under LIMIT, and in the second form a TID scan that locks. The content comes from
-- the first of them, a join to it was a third of the cost.
WITH l AS MATERIALIZED (
  SELECT lane, f.floor FROM unnest(current_setting('outbox.lanes')::int2[]) c(lane)
  JOIN unnest($1::int2[], $2::int8[]) f(lane, floor) USING (lane)
),
allowed AS MATERIALIZED (SELECT greatest(1, $3::int / greatest(1, count(*)))::int AS rows FROM l),
found AS MATERIALIZED (
  SELECT 0::int2 AS kind, r.* FROM l CROSS JOIN LATERAL (
    SELECT o.ctid AS tid, o.txid, o.id, o.lane, o.key, o.holds, o.topic, o.uuid, o.payload, o.metadata, o.attempts,
      coalesce(octet_length(o.payload), 0) + pg_column_size(o.metadata) + octet_length(o.uuid) AS size
    FROM {outbox} o WHERE o.lane = l.lane AND o.next_attempt_at <= now()
    ORDER BY o.lane, o.next_attempt_at, o.id LIMIT (SELECT rows FROM allowed) {lock}) r
  UNION ALL
  SELECT 1::int2, r.* FROM l CROSS JOIN LATERAL (
    SELECT o.ctid AS tid, o.txid, o.id, o.lane, o.key, o.holds, o.topic, o.uuid, o.payload, o.metadata, o.attempts,
      coalesce(octet_length(o.payload), 0) + pg_column_size(o.metadata) + octet_length(o.uuid) AS size
    FROM {outbox} o WHERE o.lane = l.lane AND o.id >= l.floor AND o.next_attempt_at IS NULL
    ORDER BY o.lane, o.id LIMIT (SELECT rows FROM allowed) {lock}) r
  UNION ALL
  SELECT 2::int2, r.* FROM l
  JOIN unnest($6::int2[], $7::text[]::xid8[], $8::int8[]) x(lane, txid, low) USING (lane)
  CROSS JOIN LATERAL (
    SELECT o.ctid AS tid, o.txid, o.id, o.lane, o.key, o.holds, o.topic, o.uuid, o.payload, o.metadata, o.attempts,
      coalesce(octet_length(o.payload), 0) + pg_column_size(o.metadata) + octet_length(o.uuid) AS size
    FROM {outbox} o WHERE o.txid = x.txid AND o.lane = l.lane AND o.id >= x.low AND o.id < l.floor AND num_nulls(o.next_attempt_at) = 1
    ORDER BY o.txid, o.lane, o.id LIMIT (SELECT rows FROM allowed) {lock}) r
  WHERE pg_visible_in_snapshot(x.txid, pg_current_snapshot())
),
total AS MATERIALIZED (SELECT sum(size) AS bytes FROM found),
unlocked AS MATERIALIZED (
  SELECT o.ctid AS tid FROM {outbox} o WHERE o.ctid = ANY (ARRAY(SELECT tid FROM found)) FOR UPDATE SKIP LOCKED
),
holding AS MATERIALIZED (
  SELECT CASE
      WHEN CASE WHEN pg_relation_size({outbox_holds_literal}::regclass) <= 32768 THEN
        (SELECT o.id FROM {outbox} o WHERE o.holds AND o.key > '' ORDER BY o.key, o.id LIMIT 1) IS NULL END THEN false
      ELSE (SELECT o.id FROM {outbox} o WHERE o.holds AND o.key = ANY (ARRAY(SELECT key FROM found)) LIMIT 1) IS NOT NULL END
    OR CASE
      WHEN CASE WHEN pg_relation_size({dead_holds_literal}::regclass) <= 32768 THEN
        (SELECT d.id FROM {dead} d WHERE d.holds AND d.key > '' ORDER BY d.key, d.id LIMIT 1) IS NULL END THEN false
      ELSE (SELECT d.id FROM {dead} d WHERE d.holds AND d.key = ANY (ARRAY(SELECT key FROM found)) LIMIT 1) IS NOT NULL END
    AS any
),
held AS MATERIALIZED (
  SELECT k.key,
    ARRAY(SELECT o.id FROM {outbox} o WHERE o.holds AND o.key = k.key ORDER BY o.key, o.id LIMIT (SELECT rows FROM allowed)) AS heads,
    (SELECT d.id FROM {dead} d WHERE d.holds AND d.key = k.key ORDER BY d.key, d.id LIMIT 1) IS NOT NULL AS quarantined
  FROM (SELECT DISTINCT key FROM found WHERE key <> '') k WHERE (SELECT h.any FROM holding h)
)
SELECT -1::int2 AS kind, 0::int2 AS state, NULL::tid AS tid, '' AS txid, 0::int8 AS id, 0::int2 AS lane, ''::text AS key, false AS holds,
  (SELECT rows FROM allowed) AS size, NULL::int8[] AS heads,
  pg_current_snapshot()::text AS topic, pg_current_xact_id()::text AS uuid, NULL::bytea AS payload, NULL::jsonb AS metadata, 0 AS attempts
WHERE (SELECT bytes FROM total) IS NOT NULL
UNION ALL
SELECT -2, 0, NULL, '', 0, 0, key, quarantined, 0, heads, '', '', NULL, NULL, 0 FROM held WHERE heads <> '{}' OR quarantined
UNION ALL
SELECT kind, CASE WHEN NOT free THEN 2 WHEN NOT fits THEN 1 ELSE 0 END, tid, CASE WHEN kind = 2 THEN txid::text ELSE '' END,
  id, lane, key, holds, size, NULL, topic, uuid, CASE WHEN fits THEN payload END, CASE WHEN fits THEN metadata END, attempts
FROM (
  SELECT f.*, {free} AS free, true AS fits FROM found f WHERE (SELECT bytes FROM total) <= $4::int8
  UNION ALL  -- by id, or the small ones first, up to the budget; of the larger ones only the one that was asked for
  SELECT f.*, CASE WHEN f.size > $4::int8 THEN f.id = $5::int8
    ELSE sum(CASE WHEN f.size > $4::int8 OR NOT f.free THEN 0 ELSE f.size END)
      OVER (ORDER BY CASE WHEN $9::bool THEN f.size ELSE 0 END, f.id ROWS UNBOUNDED PRECEDING) <= $4::int8 END
  FROM (SELECT f.*, {free} AS free FROM found f) f WHERE (SELECT bytes FROM total) > $4::int8
) s
