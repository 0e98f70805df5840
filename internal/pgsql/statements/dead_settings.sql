-- For a transaction of the operator's tool only, so that it works behind a transaction pooler. Without parameters, because
-- some drivers' modes can't send any before the encoding is right.
-- The planner must find the outbox's index for the release, see settings.sql; the filters need a plan for each call. The
-- idle timeout ends the transaction of a process that hangs, which would keep lanes from the forwarders. The administrator's
-- other limits hold.
SELECT set_config(s.name, s.value, true)
FROM (VALUES ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_sort', 'off'), ('jit', 'off'),
  ('plan_cache_mode', 'force_custom_plan'),
  ('bytea_output', 'hex'),
  ('client_encoding', 'UTF8'),
  ('idle_in_transaction_session_timeout', '60s'),
  ('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'local' ELSE current_setting('synchronous_commit') END)
) s(name, value)
