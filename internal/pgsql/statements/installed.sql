-- Whether the PostgreSQL schema and the migrations table are there. By the catalog, which needs no privilege and
-- spoils no transaction.
SELECT n.oid IS NOT NULL, c.oid IS NOT NULL
FROM (SELECT) one
LEFT JOIN pg_namespace n ON n.nspname = {schema_literal}
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = {migrations_name}
