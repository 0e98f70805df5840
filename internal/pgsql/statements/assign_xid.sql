-- For a pass that found nothing: an xid, so that the floors of empty lanes can be proven too. The message makes the
-- commit reach the disk before it is reported: what was read of the sequence must not be undone by a crash.
SELECT pg_current_xact_id()::text FROM pg_logical_emit_message(true, 'outbox', '')
