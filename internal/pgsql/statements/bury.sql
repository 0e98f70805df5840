-- Moves rows to the dead letters: $1 rows, $2 errors (NULL: as it is), $3 failures to add, $4 whether the key is
-- quarantined by it, $5 whether it is only a tail.
-- Plan: Nested Loop over a Tid Scan.
WITH gone AS (
  DELETE FROM {outbox} o
  USING unnest($1::tid[], $2::text[], $3::int4[], $4::bool[], $5::bool[]) r(tid, error, failures, holds, tail)
  WHERE o.ctid = r.tid
  RETURNING o.txid, o.id, o.lane, o.topic, o.key, o.uuid, o.payload, o.metadata, o.created_at, o.attempts + r.failures AS attempts,
    coalesce(r.error, o.last_error, '') AS last_error, r.holds, r.tail
)
INSERT INTO {dead} (txid, id, lane, topic, key, uuid, payload, metadata, created_at, attempts, last_error, holds, tail)
SELECT txid, id, lane, topic, key, uuid, payload, metadata, created_at, attempts, last_error, holds, tail FROM gone
