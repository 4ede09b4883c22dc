/**
 * The log's tables on a server, format 1. In all SQL of this folder `threadlog.` stands for the log's schema.
 *
 * @module
 */

/** The format that this release writes and reads. Any change of a table or of a function's signature raises it. */
export const FORMAT_VERSION = 1;

/** The relations of a log: what else is in the schema is somebody else's. */
export const RELATIONS: readonly string[] = [
  "meta",
  "lanes",
  "threads",
  "events",
  "bases",
  "purges",
  "states",
  "stored",
  "incoming",
  "thread_record",
];

// Names are bytea: a text can't hold U+0000, and bytes are in code point order under every collation. An index row has
// room for 2,700 bytes and a name may be longer, so that indexes hold the first 1,000.
// The head of a thread is in its row. `lanes` has one row, whose lock is the order of the log: whoever holds it draws
// the next positions and keeps it until the commit, so that positions become visible in their order, without gaps. It is
// the only lock that any function takes, so that there are no deadlocks.
// `scrubbed` is what `tombstone + erased` was when copies were last overwritten.
/** The tables. Each statement may be run again. */
export const TABLES = `
CREATE TABLE IF NOT EXISTS threadlog.meta (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE IF NOT EXISTS threadlog.lanes (
  lane int PRIMARY KEY,
  position bigint NOT NULL,
  time bigint NOT NULL,
  threads bigint NOT NULL,
  erased bigint NOT NULL,
  tombstone bigint NOT NULL,
  scrubbed bigint NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE IF NOT EXISTS threadlog.threads (
  id bigint PRIMARY KEY,
  path bytea NOT NULL,
  created bigint NOT NULL,
  parent bigint,
  parent_version bigint,
  version bigint NOT NULL,
  position bigint NOT NULL,
  time bigint NOT NULL,
  latest bigint NOT NULL,
  link bytea NOT NULL,
  erased bigint NOT NULL,
  tombstone bigint NOT NULL
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX IF NOT EXISTS threads_path ON threadlog.threads (substr(path, 1, 1000), sha256(path));
CREATE TABLE IF NOT EXISTS threadlog.events (
  position bigint PRIMARY KEY,
  thread bigint NOT NULL,
  version bigint NOT NULL,
  time bigint NOT NULL,
  latest bigint NOT NULL,
  base bigint,
  schema bigint NOT NULL,
  form smallint NOT NULL,
  type bytea NOT NULL,
  key bytea,
  id bytea,
  link bytea NOT NULL,
  meta bytea,
  value bytea,
  state bytea
);
CREATE UNIQUE INDEX IF NOT EXISTS events_version ON threadlog.events (thread, version);
CREATE INDEX IF NOT EXISTS events_key ON threadlog.events (thread, substr(key, 1, 1000), position) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS events_id ON threadlog.events (thread, substr(id, 1, 1000)) WHERE id IS NOT NULL;
CREATE TABLE IF NOT EXISTS threadlog.bases (
  thread bigint NOT NULL,
  position bigint NOT NULL,
  origin_thread bigint NOT NULL,
  origin_position bigint NOT NULL,
  PRIMARY KEY (thread, position)
);
CREATE INDEX IF NOT EXISTS bases_origin ON threadlog.bases (origin_thread) WHERE origin_thread > 0;
CREATE TABLE IF NOT EXISTS threadlog.purges (thread bigint PRIMARY KEY);
CREATE TABLE IF NOT EXISTS threadlog.states (
  name bytea NOT NULL,
  version bigint NOT NULL,
  position bigint NOT NULL,
  state bytea NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS states_name ON threadlog.states (sha256(name));
CREATE OR REPLACE VIEW threadlog.stored AS
  SELECT t.path, e.* FROM threadlog.events e JOIN threadlog.threads t ON t.id = e.thread;
INSERT INTO threadlog.lanes (lane, position, time, threads, erased, tombstone, scrubbed)
  SELECT 1, coalesce(max(position), 0), coalesce(max(time), 0), (SELECT count(*) FROM threadlog.threads),
    coalesce(max(position), 0) - count(*), (SELECT coalesce(max(tombstone), 0) FROM threadlog.threads), 0
  FROM threadlog.events ON CONFLICT DO NOTHING;
DO $$
BEGIN
  IF to_regtype('threadlog.incoming') IS NULL THEN
    -- An event on its way in. Its payloads are in a block of bytes: where they begin, and how long they are.
    CREATE TYPE threadlog.incoming AS (
      path int, type bytea, key bytea, id bytea, schema bigint, form smallint, base bigint,
      origin_path int, origin_version bigint, digest bytea, start int, value int, state int, meta int
    );
  END IF;
  IF to_regtype('threadlog.thread_record') IS NULL THEN
    CREATE TYPE threadlog.thread_record AS (
      path bytea, version bigint, position bigint, latest bigint, created bigint, time bigint, erased bigint,
      parent bytea, parent_version bigint
    );
  END IF;
  IF (SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression') THEN
    ALTER TABLE threadlog.events ALTER COLUMN value SET COMPRESSION lz4, ALTER COLUMN state SET COMPRESSION lz4;
  END IF;
END $$;
`;
