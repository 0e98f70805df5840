-- The first statement of a transaction that begins as the driver begins it. Never the inherited defaults: it writes,
-- and each statement must see what others have committed until then.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE
