-- Records a message in the inbox: $1 consumer, $2 handler, $3 message id. No row written: it was recorded before, and its
-- effects are there.
-- A concurrent copy waits here for the first one's transaction. If that commits, the copy writes nothing; if it rolls back,
-- the copy is the first.
INSERT INTO {inbox} (consumer, handler, message_id) VALUES ($1::text, $2::text, $3::text) ON CONFLICT DO NOTHING
