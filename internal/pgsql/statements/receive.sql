-- Records a message in the inbox. No row written: it was recorded before, and its effects are there.
-- Two forms: with the parameters $1 consumer, $2 handler, $3 message id; and with those in the text, for lib/pq, to which a
-- statement with parameters is two round trips. That took a third of what the inbox costs there.
-- A concurrent copy waits here for the first one's transaction. If that commits, the copy writes nothing; if it rolls back,
-- the copy is the first.
-- With synchronous_commit = off a crash could take away the effects of a message that is acknowledged by then.
{with}INSERT INTO {inbox} (consumer, handler, message_id)
SELECT {row}
WHERE CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END
ON CONFLICT DO NOTHING
