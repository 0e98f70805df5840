-- What CheckSchema looks at beside privileges. By the catalog, which needs no privilege. No row: no sequence.
SELECT current_setting('server_encoding'), s.seqincrement, s.seqcache, s.seqcycle,
  EXISTS (SELECT 1 FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid
    JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE c.relnamespace = n.oid AND c.relname = {outbox_name} AND t.tgenabled IN ('O', 'A')
      AND p.pronamespace = n.oid AND p.proname = {doorbell_function_name}) AS doorbell
FROM pg_namespace n
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = {sequence_name}
JOIN pg_sequence s ON s.seqrelid = c.oid
WHERE n.nspname = {schema_literal}
