-- What CheckSchema looks at, by plain reads of the catalog. No row: the table or its sequence is not there.
SELECT c.relpersistence = 'p' AS logged,
  row_security_active(c.oid) AS row_security,
  s.seqincrement AS increment, s.seqcache AS cache, s.seqcycle AS cycle,
  EXISTS (SELECT 1 FROM pg_trigger t
    WHERE t.tgrelid = c.oid AND t.tgenabled IN ('O', 'A') AND t.tgfoid = to_regproc({doorbell_function_literal})) AS doorbell
FROM pg_class c
JOIN pg_sequence s ON s.seqrelid = to_regclass({sequence_literal})
WHERE c.oid = to_regclass({outbox_literal})
