/**
 * The reads of the port as SQL functions: one call each, one round trip.
 *
 * @module
 */

import { Raised } from "./lineage_sql.ts";

/** The functions. */
export const READS = `
-- An event and all that is needed to read the value it left, newest first; nothing for a deletion.
CREATE OR REPLACE FUNCTION threadlog.chain_of(newest bigint) RETURNS SETOF threadlog.stored ROWS 10
LANGUAGE plpgsql STABLE AS $$
DECLARE
  event threadlog.stored;
  above bigint;
BEGIN
  SELECT * INTO event FROM threadlog.stored WHERE position = newest;
  IF event.position IS NULL OR event.type = 'delete' THEN RETURN; END IF;
  LOOP
    RETURN NEXT event;
    EXIT WHEN event.form = 0 OR event.state IS NOT NULL;
    above := event.position;
    SELECT * INTO event FROM threadlog.stored WHERE position = event.base AND position < above;
    IF event.position IS NULL THEN
      RAISE EXCEPTION 'broken chain' USING ERRCODE = '${Raised.brokenChain}', DETAIL = above;
    END IF;
  END LOOP;
END $$;

-- What is known of a thread, as it was at a position.
CREATE OR REPLACE FUNCTION threadlog.record_of(node threadlog.threads, at_position bigint) RETURNS threadlog.thread_record
LANGUAGE plpgsql STABLE AS $$
DECLARE
  result threadlog.thread_record;
BEGIN
  IF at_position < node.created THEN RETURN NULL; END IF;
  result := (node.path, node.version, node.position, node.latest, node.created, node.time, node.erased, NULL, node.parent_version);
  IF node.parent IS NOT NULL THEN
    SELECT path INTO result.parent FROM threadlog.threads WHERE id = node.parent;
  END IF;
  IF at_position < node.tombstone THEN
    -- Before its tombstone nothing of an erased thread is told: it reads as empty.
    result.version := 0;
    result.position := 0;
    result.latest := 0;
    result.time := 0;
  ELSIF at_position < node.position THEN
    SELECT version, position, latest, time INTO result.version, result.position, result.latest, result.time
    FROM threadlog.events WHERE position = threadlog.event_at(node.id, at_position);
  END IF;
  RETURN result;
END $$;

CREATE OR REPLACE FUNCTION threadlog.thread(named bytea, at_version bigint, at_position bigint) RETURNS SETOF threadlog.thread_record ROWS 1
LANGUAGE plpgsql STABLE AS $$
DECLARE
  node threadlog.threads;
  result threadlog.thread_record;
  cut record;
BEGIN
  SELECT * INTO node FROM threadlog.threads WHERE substr(path, 1, 1000) = substr(named, 1, 1000) AND path = named;
  IF node.id IS NULL THEN RETURN; END IF;
  result := threadlog.record_of(node, coalesce(at_position, node.position));
  IF at_version IS NOT NULL THEN
    SELECT * INTO cut FROM threadlog.cut_at(named, at_version, NULL);
    IF cut.owner IS NULL THEN RETURN; END IF;
    SELECT version, position, latest, time INTO result.version, result.position, result.latest, result.time
    FROM threadlog.events WHERE position = cut.place;
  END IF;
  IF result.path IS NOT NULL THEN RETURN NEXT result; END IF;
END $$;

CREATE OR REPLACE FUNCTION threadlog.threads(prefix bytea, behind bytea, maximum bigint, at_position bigint) RETURNS SETOF threadlog.thread_record
LANGUAGE plpgsql STABLE AS $$
DECLARE
  node threadlog.threads;
  result threadlog.thread_record;
  start bytea := greatest(prefix, behind);
  finish bytea := prefix || '\\xff';
  count bigint := 0;
BEGIN
  FOR node IN
    SELECT * FROM threadlog.threads
    WHERE substr(path, 1, 1000) >= substr(start, 1, 1000) AND substr(path, 1, 1000) <= substr(finish, 1, 1000)
      AND path >= prefix AND path > behind AND path < finish
    ORDER BY substr(path, 1, 1000), path
  LOOP
    EXIT WHEN count >= maximum;
    result := threadlog.record_of(node, at_position);
    -- A thread that is nothing but a tombstone is not listed.
    IF result.version > result.erased + least(result.erased, 1) THEN
      RETURN NEXT result;
      count := count + 1;
    END IF;
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION threadlog.entry(named bytea, at_version bigint, at_position bigint, of_key bytea) RETURNS SETOF threadlog.stored ROWS 10
LANGUAGE plpgsql STABLE AS $$
DECLARE
  cut record;
BEGIN
  SELECT * INTO cut FROM threadlog.cut_at(named, at_version, at_position);
  IF cut.owner IS NULL THEN RETURN; END IF;
  RETURN QUERY SELECT * FROM threadlog.chain_of(threadlog.newest_of(cut.owner, cut.place, of_key));
END $$;

CREATE OR REPLACE FUNCTION threadlog.latest(named bytea, at_version bigint, at_position bigint) RETURNS SETOF threadlog.stored ROWS 10
LANGUAGE plpgsql STABLE AS $$
DECLARE
  cut record;
  newest bigint;
BEGIN
  SELECT * INTO cut FROM threadlog.cut_at(named, at_version, at_position);
  IF cut.owner IS NULL THEN RETURN; END IF;
  SELECT latest INTO newest FROM threadlog.events WHERE position = threadlog.event_at(cut.owner, cut.place);
  RETURN QUERY SELECT * FROM threadlog.chain_of(newest);
END $$;

-- The keys that are there at a point, in order, each with its chain.
CREATE OR REPLACE FUNCTION threadlog.entries(
  named bytea, at_version bigint, at_position bigint, prefix bytea, behind bytea, maximum bigint, reverse boolean
) RETURNS SETOF threadlog.stored
LANGUAGE plpgsql STABLE AS $$
DECLARE
  cut record;
  owners bigint[];
  finish bytea := prefix || '\\xff';
  start bytea;
  inclusive boolean;
  found_key bytea;
  count bigint := 0;
BEGIN
  SELECT * INTO cut FROM threadlog.cut_at(named, at_version, at_position);
  IF cut.owner IS NULL THEN RETURN; END IF;
  owners := ARRAY(SELECT DISTINCT s.owner FROM threadlog.stretches(cut.owner, cut.place) s);
  start := CASE WHEN reverse THEN least(finish, behind) ELSE greatest(prefix, behind) END;
  inclusive := NOT reverse AND (behind IS NULL OR behind < prefix);
  WHILE count < maximum LOOP
    found_key := threadlog.next_key(owners, start, inclusive, reverse);
    EXIT WHEN found_key IS NULL OR found_key < prefix OR found_key >= finish;
    RETURN QUERY SELECT * FROM threadlog.chain_of(threadlog.newest_of(cut.owner, cut.place, found_key));
    IF FOUND THEN count := count + 1; END IF;
    start := found_key;
    inclusive := false;
  END LOOP;
END $$;

-- The events of a thread, inherited ones included.
CREATE OR REPLACE FUNCTION threadlog.history(named bytea, from_version bigint, to_version bigint, maximum bigint, reverse boolean) RETURNS SETOF threadlog.stored
LANGUAGE plpgsql STABLE AS $$
DECLARE
  node threadlog.threads;
  first bigint;
  high bigint := to_version;
  owners bigint[] := '{}';
  lows bigint[] := '{}';
  highs bigint[] := '{}';
  index int;
  row_count bigint;
BEGIN
  SELECT * INTO node FROM threadlog.threads WHERE substr(path, 1, 1000) = substr(named, 1, 1000) AND path = named;
  first := greatest(from_version, node.erased + 1);
  WHILE node.id IS NOT NULL LOOP
    owners := owners || node.id;
    lows := lows || greatest(first, coalesce(node.parent_version, 0) + 1);
    highs := highs || high;
    EXIT WHEN node.parent IS NULL OR first > node.parent_version;
    high := least(to_version, node.parent_version);
    SELECT * INTO node FROM threadlog.threads WHERE id = node.parent;
  END LOOP;
  FOR step IN 1..cardinality(owners) LOOP
    EXIT WHEN maximum <= 0;
    IF reverse THEN
      index := step;
      RETURN QUERY SELECT * FROM threadlog.stored
        WHERE thread = owners[index] AND version BETWEEN lows[index] AND highs[index] ORDER BY version DESC LIMIT maximum;
    ELSE
      index := cardinality(owners) + 1 - step;
      RETURN QUERY SELECT * FROM threadlog.stored
        WHERE thread = owners[index] AND version BETWEEN lows[index] AND highs[index] ORDER BY version LIMIT maximum;
    END IF;
    GET DIAGNOSTICS row_count = ROW_COUNT;
    maximum := maximum - row_count;
  END LOOP;
END $$;

-- Events by position, without what tombstones have erased but nobody has removed yet.
CREATE OR REPLACE FUNCTION threadlog.read(behind bigint, until bigint, maximum bigint) RETURNS SETOF threadlog.stored
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM threadlog.purges) THEN
    RETURN QUERY SELECT * FROM threadlog.stored WHERE position > behind AND position <= until ORDER BY position LIMIT maximum;
    RETURN;
  END IF;
  RETURN QUERY
    WITH pending AS MATERIALIZED (
      SELECT t.id, t.tombstone, threadlog.shared_ranges(t.id) AS shared
      FROM threadlog.purges p JOIN threadlog.threads t ON t.id = p.thread
    )
    SELECT s.* FROM threadlog.stored s LEFT JOIN pending p ON p.id = s.thread
    WHERE s.position > behind AND s.position <= until
      AND (p.id IS NULL OR s.position >= p.tombstone OR s.position <@ p.shared)
    ORDER BY s.position LIMIT maximum;
END $$;

-- The thread's own event under an id. Where a fork keeps an erased one, its id is free again all the same.
CREATE OR REPLACE FUNCTION threadlog.by_id(named bytea, of_id bytea) RETURNS SETOF threadlog.stored ROWS 1
LANGUAGE plpgsql STABLE AS $$
DECLARE
  node threadlog.threads;
BEGIN
  SELECT * INTO node FROM threadlog.threads WHERE substr(path, 1, 1000) = substr(named, 1, 1000) AND path = named;
  RETURN QUERY SELECT * FROM threadlog.stored
    WHERE thread = node.id AND substr(id, 1, 1000) = substr(of_id, 1, 1000) AND id = of_id AND version > node.erased;
END $$;

-- The last position whose event is not newer than a time.
CREATE OR REPLACE FUNCTION threadlog.position_at(moment bigint, until bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bigint := 0;
  high bigint := until;
  middle bigint;
  known record;
BEGIN
  WHILE low < high LOOP
    middle := (low + high + 1) / 2;
    -- Erased positions tell no time: the next one before them that does decides.
    SELECT position, time INTO known FROM threadlog.events WHERE position <= middle ORDER BY position DESC LIMIT 1;
    IF coalesce(known.position, 0) <= low OR known.time <= moment THEN low := middle; ELSE high := known.position - 1; END IF;
  END LOOP;
  RETURN low;
END $$;
`;
