-- A page of dead letters by id, of $8 and what shares the last one's id: ids repeat after a reset of the sequence, and a
-- page that ended between two equal ones would lose the second.
-- Times as microseconds since 1970, which no setting changes; NULL those that are infinite.
-- Plan: Index Scan on the primary key under LIMIT.
SELECT p.id, p.topic, p.key, p.uuid, p.payload, p.metadata::text, p.attempts, p.last_error,
  CASE WHEN isfinite(p.created_at) THEN (extract(epoch FROM p.created_at) * 1000000)::int8 END,
  CASE WHEN isfinite(p.died_at) THEN (extract(epoch FROM p.died_at) * 1000000)::int8 END,
  CASE WHEN isfinite(p.died_at) THEN greatest(0, least(9000000000000000, (extract(epoch FROM clock_timestamp() - p.died_at) * 1000000)::int8)) END,
  p.holds, p.tail
FROM (
  SELECT d.* FROM {dead} d WHERE {filter} ORDER BY d.id FETCH FIRST ($8::int8) ROWS WITH TIES
) p
ORDER BY p.id, p.txid
