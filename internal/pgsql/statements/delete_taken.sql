-- Settles the first $1 rows of what take.sql has taken in this transaction; in another one, none.
-- Plan: Tid Scan.
DELETE FROM {outbox} WHERE ctid = ANY ((nullif(current_setting('outbox.taken', true), '')::tid[])[1:$1::int])
