-- Settles rows of which some hold back others, for a watermill-sql subscriber: their places are in outbox.acked. It
-- leaves the keys to release and their lanes, ascending, for the statements that follow.
-- Settings of the transaction carry them, because several statements in one text can't have parameters.
-- Plan: Tid Scan.
WITH gone AS (
  DELETE FROM {outbox} WHERE ctid = ANY (current_setting('outbox.acked', true)::tid[]) RETURNING key, lane, holds
)
SELECT set_config('outbox.release_keys', coalesce(array_agg(DISTINCT key), '{}')::text, true),
  set_config('outbox.release_lanes', coalesce(array_agg(DISTINCT lane ORDER BY lane), '{}')::text, true)
FROM gone WHERE holds
