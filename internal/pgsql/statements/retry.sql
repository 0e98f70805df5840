-- Charges a failure: $1 rows, $2 back-off in seconds, $3 errors. Only a keyed row holds back the later ones of its key.
-- Plan: Nested Loop over a Tid Scan.
UPDATE {outbox} o
SET holds = o.key <> '', attempts = o.attempts + 1, last_error = r.error,
  next_attempt_at = (SELECT clock_timestamp()) + make_interval(secs => r.delay)
FROM unnest($1::tid[], $2::float8[], $3::text[]) r(tid, delay, error)
WHERE o.ctid = r.tid
