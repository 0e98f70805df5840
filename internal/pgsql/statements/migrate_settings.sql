-- Never the inherited defaults: what another process has just committed must be seen once the lock is ours.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE
