-- Says whether a table is missing, for CREATE TABLE IF NOT EXISTS needs the right to create even if it does nothing.
SELECT to_regclass($1) IS NULL
