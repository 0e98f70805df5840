-- Waits for the claims in the lanes of what delete_acked.sql has settled: one that still saw the row there may be about
-- to park others behind it. The release that follows has a younger snapshot and sees those. In ascending order, as
-- everybody who waits for several lanes; who claims waits for none.
SELECT pg_advisory_xact_lock({lock_class}, lane) FROM unnest(nullif(current_setting('outbox.release_lanes', true), '')::int2[]) lane
