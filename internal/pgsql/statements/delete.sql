-- Settles acknowledged rows. They are locked by this transaction, so their places are stable.
-- Plan: Tid Scan.
DELETE FROM {outbox} WHERE ctid = ANY ($1::tid[])
