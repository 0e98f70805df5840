-- What the current role may do: $1 is a JSON array of {kind, name, privilege}, of this schema. By the catalog, which
-- needs no privilege.
SELECT p.kind, p.name, p.privilege, CASE p.kind WHEN 'SCHEMA' THEN n.oid IS NOT NULL ELSE c.oid IS NOT NULL END AS there,
  coalesce(CASE p.kind
    WHEN 'SCHEMA' THEN has_schema_privilege(n.oid, p.privilege)
    WHEN 'SEQUENCE' THEN has_sequence_privilege(c.oid, p.privilege)
    ELSE has_table_privilege(c.oid, p.privilege) END, false) AS granted,
  coalesce(c.relpersistence <> 'p', false) AS unlogged,
  coalesce(p.kind = 'TABLE' AND row_security_active(c.oid), false) AS row_security,
  current_user::text
FROM jsonb_to_recordset($1::text::jsonb) p(kind text, name text, privilege text)
LEFT JOIN pg_namespace n ON n.nspname = {schema_literal}
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.name
