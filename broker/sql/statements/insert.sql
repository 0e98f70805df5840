-- Appends messages to a topic, in the order of the arrays: "offset" is drawn row by row, above the sort.
-- The columns are watermill-sql's.
INSERT INTO {messages} (uuid, payload, metadata, transaction_id)
SELECT m.uuid, m.payload, m.metadata::json, pg_current_xact_id()
FROM unnest($1::text[], $2::bytea[], $3::text[]) WITH ORDINALITY AS m (uuid, payload, metadata, place)
ORDER BY m.place
