-- delete_taken.sql for rows of which some hold back others; how many is in outbox.acked. It leaves the keys to release and
-- their lanes, ascending, for the statements that follow.
-- Settings of the transaction carry them, because several statements in one text can't have parameters.
-- Plan: Tid Scan.
WITH gone AS (
  DELETE FROM {outbox} WHERE ctid = ANY ((nullif(current_setting('outbox.taken', true), '')::tid[])
    [1:nullif(current_setting('outbox.acked', true), '')::int])
  RETURNING key, lane, holds
)
SELECT set_config('outbox.release_keys', coalesce(array_agg(DISTINCT key), '{}')::text, true),
  set_config('outbox.release_lanes', coalesce(array_agg(DISTINCT lane ORDER BY lane), '{}')::text, true)
FROM gone WHERE holds
