-- Counts by state. A row is in one of them: ready; parked, or released but not sent yet; retrying (it failed itself);
-- delayed. The age is that of the row that could have been claimed longest ago; 0 when none can be.
SELECT
  count(*) FILTER (WHERE next_attempt_at IS NULL),
  count(*) FILTER (WHERE next_attempt_at IS NOT NULL AND NOT holds AND attempts = 0),
  count(*) FILTER (WHERE next_attempt_at < 'infinity' AND attempts > 0),
  count(*) FILTER (WHERE holds AND (next_attempt_at = 'infinity' OR attempts = 0)),
  (SELECT count(*) FROM {dead}),
  (SELECT count(DISTINCT key) FROM {dead} WHERE holds),
  greatest(0, extract(epoch FROM clock_timestamp() - least(
    min(created_at) FILTER (WHERE next_attempt_at IS NULL),
    min(next_attempt_at) FILTER (WHERE next_attempt_at <= now()))))::float8
FROM {outbox}
