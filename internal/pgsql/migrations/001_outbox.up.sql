-- The outbox, its dead letters, and the inbox.

-- A key must be the same bytes for every driver: in another encoding one client's "Müller" is not the other's.
DO {dollar} BEGIN
  IF current_setting('server_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION 'outbox: the database has the encoding %, it must be UTF8', current_setting('server_encoding');
  END IF;
END {dollar};

-- Which migrations this schema has; each one records itself.
CREATE TABLE {migrations} (
  version    integer     NOT NULL CONSTRAINT {migrations_pkey} PRIMARY KEY,
  name       text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- CACHE 1 and INCREMENT 1: the forwarder's floors rest on ids being drawn in order.
CREATE SEQUENCE {sequence} AS bigint INCREMENT 1 CACHE 1 NO CYCLE;

CREATE TABLE {outbox} (
  txid            xid8        NOT NULL DEFAULT pg_current_xact_id(),
  -- The transaction's xid is assigned BEFORE the id is drawn, however the row is inserted. An identity column would
  -- draw it first in a multi-row VALUES (DEFAULT, ...), and a floor proven by xids would be wrong.
  id              bigint      NOT NULL DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval({sequence_literal}) END,
  lane            smallint    NOT NULL CONSTRAINT {lane_check} CHECK (lane BETWEEN 0 AND 63),
  topic           text        NOT NULL CONSTRAINT {topic_check} CHECK (octet_length(topic) <= 2048),  -- an index takes no more
  key             text COLLATE "C" NOT NULL DEFAULT ''      -- ordering key; '' = no order asked
    CONSTRAINT {key_check} CHECK (octet_length(key) <= 2048),
  uuid            text        NOT NULL,                     -- Watermill's message UUID
  payload         bytea,                                    -- NULL stays NULL, empty stays empty
  metadata        jsonb       NOT NULL DEFAULT '{}',
  created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  next_attempt_at timestamptz,                              -- NULL = ready; infinity = parked; else delayed or backing off
  attempts        integer     NOT NULL DEFAULT 0            -- failures charged so far
    CONSTRAINT {attempts_check} CHECK (attempts BETWEEN 0 AND 1000000000),
  holds           boolean     NOT NULL DEFAULT false,       -- failed, or parked behind a failed one: its key waits
  last_error      text,
  -- Replica identity (a publication FOR ALL TABLES must not stop the forwarder), and the way to the rows of a
  -- transaction that committed late.
  CONSTRAINT {outbox_pkey} PRIMARY KEY (txid, lane, id)
) WITH (
  -- The table is a queue: many dead rows beside few live ones. Vacuum by count, not by share.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
  toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000
);
ALTER SEQUENCE {sequence} OWNED BY {outbox}.id;
-- Not compressed, so that its size in the table is what it takes in a forwarder's memory.
ALTER TABLE {outbox} ALTER metadata SET STORAGE EXTERNAL;

CREATE UNIQUE INDEX {outbox_ready}   ON {outbox} (lane, id) WHERE next_attempt_at IS NULL;
CREATE INDEX        {outbox_waiting} ON {outbox} (lane, next_attempt_at, id) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX        {outbox_holds}   ON {outbox} (key, id) WHERE holds;

-- The library's INSERT computes the lane; this does it for rows that anyone else inserts.
CREATE FUNCTION {lane_function}() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $lane$
BEGIN
  NEW.lane := (hashtextextended(CASE WHEN NEW.key = '' THEN NEW.uuid ELSE NEW.key END COLLATE "C", 0) & 63)::smallint;
  RETURN NEW;
END $lane$;
CREATE TRIGGER {lane_trigger} BEFORE INSERT ON {outbox}
  FOR EACH ROW WHEN (NEW.lane IS NULL) EXECUTE FUNCTION {lane_function}();

CREATE TABLE {dead} (
  txid       xid8        NOT NULL,
  id         bigint      NOT NULL,                          -- as it was in the outbox
  lane       smallint    NOT NULL,
  topic      text        NOT NULL,
  key        text COLLATE "C" NOT NULL,
  uuid       text        NOT NULL,
  payload    bytea,
  metadata   jsonb       NOT NULL,
  created_at timestamptz NOT NULL,
  attempts   integer     NOT NULL,
  last_error text        NOT NULL,
  died_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  holds      boolean     NOT NULL,                          -- its key is quarantined: later rows of the key follow it here
  tail       boolean     NOT NULL,                          -- never failed itself; came after one that did
  CONSTRAINT {dead_pkey} PRIMARY KEY (id, txid)             -- ids repeat after a reset of the sequence
);
CREATE INDEX {dead_holds} ON {dead} (key, id) WHERE holds;

CREATE TABLE {inbox} (
  consumer    text COLLATE "C" NOT NULL,
  handler     text COLLATE "C" NOT NULL,
  message_id  text COLLATE "C" NOT NULL,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT {inbox_pkey} PRIMARY KEY (consumer, handler, message_id)
);
CREATE INDEX {inbox_received} ON {inbox} (consumer, received_at);
