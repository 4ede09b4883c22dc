/**
 * What a server can be asked of a log's own tables.
 *
 * @module
 */

/** The server checks its pages itself where it was made with checksums; what is left to check is that tables agree. */
export const INTEGRITY = `
SELECT format('The index %s is not valid', indexrelid::regclass) AS finding
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = $1::text::regnamespace AND NOT i.indisvalid
UNION ALL
SELECT format('The log goes to position %s, its events to %s', l.position, e.position)
FROM threadlog.lanes l, (SELECT coalesce(max(position), 0) AS position FROM threadlog.events) e
WHERE l.position <> e.position
UNION ALL
(
  SELECT format('Thread number %s is at version %s, its events at %s', t.id, t.version, e.version)
  FROM threadlog.threads t JOIN threadlog.events e ON e.position = t.position
  WHERE e.thread <> t.id OR e.version <> t.version LIMIT 10
)`;

/** What `stats` tells; how far a standby is behind, too. */
export const STATS = `
SELECT
  threads, position - erased AS events, erased, EXISTS (SELECT FROM threadlog.purges) AS purging,
  (
    SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
    WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'
  ) AS "dataBytes",
  CASE
    WHEN NOT pg_is_in_recovery() THEN NULL
    WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
    ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000
  END::float8 AS "lagMs"
FROM threadlog.lanes WHERE lane = 1`;
