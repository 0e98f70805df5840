-- Step 2 of the claim: takes the locks of up to $3 lanes that have something to do.
-- Probe first, then lock: CASE fixes that order, AND would not. Probes are scalar subqueries over the index's own
-- columns, never EXISTS, which the planner may turn into a scan of the table.
-- $1 lanes in the worker's order, $2 their floors, $4 lanes that owe a release;
-- $5 to $8 the long transactions: lane, xid, and the ids between which their rows may still be.
-- The look-up by txid says "IS NULL" by a function: else the index of ready rows would do too, all of whose entries below
-- the floor it would go through.
-- Plan: index scans of one row, one to three a lane, 1 ms in all, whatever the table holds.
WITH late AS MATERIALIZED (  -- one that still runs costs nothing, however many rows it has written
  SELECT DISTINCT x.lane
  FROM unnest($5::int2[], $6::text[]::xid8[], $7::int8[], $8::int8[]) x(lane, txid, low, high)
  WHERE CASE WHEN pg_visible_in_snapshot(x.txid, pg_current_snapshot()) THEN
    (SELECT o.id FROM {outbox} o
     WHERE o.txid = x.txid AND o.lane = x.lane AND o.id >= x.low AND o.id < x.high AND num_nulls(o.next_attempt_at) = 1
     ORDER BY o.txid, o.lane, o.id LIMIT 1) IS NOT NULL
    ELSE false END
),
probe AS MATERIALIZED (
  SELECT l.lane, l.lane = ANY ($4::int2[]) AS owing,
    (SELECT o.id FROM {outbox} o WHERE o.lane = l.lane AND o.id >= l.floor AND o.next_attempt_at IS NULL
     ORDER BY o.lane, o.id LIMIT 1) IS NOT NULL OR l.lane IN (SELECT lane FROM late) AS ready
  FROM unnest($1::int2[], $2::int8[]) l(lane, floor)
),
looked AS MATERIALIZED (
  SELECT p.lane, p.owing, p.ready, CASE WHEN p.ready THEN true ELSE
    (SELECT o.id FROM {outbox} o WHERE o.lane = p.lane AND o.next_attempt_at <= now()
     ORDER BY o.lane, o.next_attempt_at, o.id LIMIT 1) IS NOT NULL END AS busy
  FROM probe p
),
got AS MATERIALIZED (
  SELECT lane FROM looked
  WHERE CASE WHEN busy OR owing THEN pg_try_advisory_xact_lock({lock_class}, lane) ELSE false END
  LIMIT $3::int
)
SELECT
  set_config('outbox.lanes', (SELECT coalesce(array_agg(lane), '{}') FROM got)::text, true) AS lanes_text,
  (SELECT coalesce(array_agg(lane), '{}') FROM got)::int2[] AS lanes,
  (SELECT coalesce(array_agg(lane), '{}') FROM looked WHERE NOT ready)::int2[] AS empty,
  (SELECT count(*) FROM looked WHERE busy)::int AS busy,
  pg_current_snapshot()::text AS snapshot,
  (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {sequence}) AS drawn,
  pg_current_xact_id_if_assigned() IS NULL AS before_xid,
  -- Whose floors these are: another server, or another life of the sequence, makes them void.
  concat_ws('/', (SELECT system_identifier FROM pg_control_system()), (SELECT timeline_id FROM pg_control_checkpoint()),
    extract(epoch FROM pg_postmaster_start_time()), pg_relation_filenode({sequence_literal}::regclass)) AS incarnation
