-- Parks rows behind a failed one of their key: out of every scan until they are released, whatever their number.
-- Plan: Tid Scan.
UPDATE {outbox} SET holds = true, next_attempt_at = 'infinity' WHERE ctid = ANY ($1::tid[])
