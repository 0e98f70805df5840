-- For the rest of a watermill-sql subscriber's transaction, before it settles: settings.sql tells what lures the planner.
SELECT set_config(name, 'off', true) FROM unnest('{enable_seqscan,enable_bitmapscan,enable_sort,jit}'::text[]) name
