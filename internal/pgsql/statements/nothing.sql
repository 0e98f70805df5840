-- For a watermill-sql publisher without messages, which executes a query all the same.
SELECT 1
