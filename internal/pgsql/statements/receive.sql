-- Records a message in the inbox: $1 consumer, $2 handler, $3 message id. No row written: it was recorded before, and its
-- effects are there.
-- A concurrent copy waits here for the first one's transaction. If that commits, the copy writes nothing; if it rolls back,
-- the copy is the first.
-- With synchronous_commit = off a crash could take away the effects of a message that is acknowledged by then.
INSERT INTO {inbox} (consumer, handler, message_id)
SELECT $1::text, $2::text, $3::text
WHERE set_config('synchronous_commit',
  CASE current_setting('synchronous_commit') WHEN 'off' THEN 'local' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
ON CONFLICT DO NOTHING
