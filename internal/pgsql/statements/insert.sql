-- Writes the messages of one Publish call, in their order, as the caller's own transaction.
-- Arrays travel as text literals and all payloads as one bytea that is sliced here, because every driver and every
-- driver mode sends text and bytea alike; arrays of bytea they do not. Slicing an in-memory bytea copies the slice only.
-- $1 topic, $2 keys, $3 uuids, $4 payloads, $5 their offsets (from 1), $6 their lengths (-1: NULL), $7 metadata,
-- $8 delays in seconds, $9 times in seconds since 1970 (both 0: none, or empty: none at all).
-- One time for all delays, so that equal ones keep their order. No ORDER BY: a function scan yields in order, and a
-- sort would carry the payloads.
INSERT INTO {outbox} (lane, topic, key, uuid, payload, metadata, next_attempt_at)
SELECT (hashtextextended(CASE WHEN m.key = '' THEN m.uuid ELSE m.key END COLLATE "C", 0) & 63)::smallint,
  $1::text, m.key, m.uuid,
  CASE WHEN m.length >= 0 THEN substring($4::bytea FROM m.start FOR m.length) END,
  m.metadata::jsonb,
  CASE WHEN m.delay > 0 THEN (SELECT clock_timestamp()) + make_interval(secs => m.delay)
    WHEN to_timestamp(m.until) > clock_timestamp() THEN to_timestamp(m.until) END
FROM unnest($2::text::text[], $3::text::text[], $5::text::int4[], $6::text::int4[], $7::text::text[], $8::text::float8[], $9::text::float8[])
  m(key, uuid, start, length, metadata, delay, until)
