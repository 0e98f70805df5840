-- The migrations that were applied.
SELECT version FROM {migrations} ORDER BY version
