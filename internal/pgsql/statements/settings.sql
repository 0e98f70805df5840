-- For this transaction only, so that it works behind a transaction pooler.
-- The planner is lured by stale statistics, and by JIT's cost guesses, away from the one right index; see claim.sql. With
-- that settled one plan serves every claim; planning anew each time was a fifth of its cost.
-- bytea_output matters to drivers that read text, and in another client_encoding one odd key would fail every claim.
-- synchronous_commit off could bring settled rows back after a crash, below a floor that was proven without them.
-- $1 idle_in_transaction_session_timeout, the end of a hung process's claim; transaction_timeout exists from 17 on.
SELECT set_config(s.name, s.value, true)
FROM (VALUES ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_sort', 'off'), ('jit', 'off'),
  ('plan_cache_mode', 'force_generic_plan'),
  ('bytea_output', 'hex'),
  ('client_encoding', 'UTF8'),
  ('idle_in_transaction_session_timeout', $1::text),
  ('transaction_timeout', $1::text),
  ('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'local' ELSE current_setting('synchronous_commit') END)
) s(name, value)
WHERE s.name <> 'transaction_timeout' OR current_setting('server_version_num')::int >= 170000
