-- What a DeadLetterFilter selects of the dead letters d; the statements that have it share these parameters.
-- $1 ids (NULL: any), $2 uuid, $3 topic, $4 key, $5 a part of the error ('': any), $6 seconds since the death, $7 the id
-- after which to begin (0: any). $8 is a limit.
-- Each call gets a plan of its own (dead_settings.sql), in which what is not asked for has fallen away.
($1::int8[] IS NULL OR d.id = ANY ($1::int8[]))
  AND ($2::text = '' OR d.uuid = $2::text) AND ($3::text = '' OR d.topic = $3::text) AND ($4::text = '' OR d.key = $4::text)
  AND ($5::text = '' OR strpos(d.last_error, $5::text) > 0)
  AND ($6::float8 = 0 OR d.died_at <= (SELECT clock_timestamp()) - make_interval(secs => $6::float8))
  AND ($7::int8 = 0 OR d.id > $7::int8)
