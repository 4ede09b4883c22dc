/**
 * Seeks along the keys of threads, as SQL functions: how long a listing takes depends on its keys, not on their versions.
 *
 * @module
 */

/** The functions. */
export const KEYS = `
-- The next key of a thread's own events behind another (or at it): one seek, however many versions each key has.
CREATE OR REPLACE FUNCTION threadlog.key_behind(of_thread bigint, start bytea, inclusive boolean) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bytea := substr(start, 1, 1000);
  -- A short name is alone with its first 1,000 bytes.
  beyond boolean := length(start) < 1000 AND NOT inclusive;
  opening bytea;
  result bytea;
BEGIN
  LOOP
    IF beyond THEN
      SELECT substr(key, 1, 1000) INTO opening FROM threadlog.events
      WHERE thread = of_thread AND key IS NOT NULL AND substr(key, 1, 1000) > low ORDER BY substr(key, 1, 1000) LIMIT 1;
    ELSE
      SELECT substr(key, 1, 1000) INTO opening FROM threadlog.events
      WHERE thread = of_thread AND key IS NOT NULL AND substr(key, 1, 1000) >= low ORDER BY substr(key, 1, 1000) LIMIT 1;
    END IF;
    IF opening IS NULL OR length(opening) < 1000 THEN RETURN opening; END IF;
    SELECT key INTO result FROM threadlog.events
    WHERE thread = of_thread AND substr(key, 1, 1000) = opening AND (key > start OR inclusive AND key = start)
    ORDER BY key LIMIT 1;
    IF result IS NOT NULL THEN RETURN result; END IF;
    low := opening;
    beyond := true;
  END LOOP;
END $$;

-- The same, backward: the last key before another.
CREATE OR REPLACE FUNCTION threadlog.key_before(of_thread bigint, start bytea) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
DECLARE
  high bytea := substr(start, 1, 1000);
  beyond boolean := length(start) < 1000;
  opening bytea;
  result bytea;
BEGIN
  LOOP
    IF beyond THEN
      SELECT substr(key, 1, 1000) INTO opening FROM threadlog.events
      WHERE thread = of_thread AND key IS NOT NULL AND substr(key, 1, 1000) < high ORDER BY substr(key, 1, 1000) DESC LIMIT 1;
    ELSE
      SELECT substr(key, 1, 1000) INTO opening FROM threadlog.events
      WHERE thread = of_thread AND key IS NOT NULL AND substr(key, 1, 1000) <= high ORDER BY substr(key, 1, 1000) DESC LIMIT 1;
    END IF;
    IF opening IS NULL OR length(opening) < 1000 THEN RETURN opening; END IF;
    SELECT key INTO result FROM threadlog.events
    WHERE thread = of_thread AND substr(key, 1, 1000) = opening AND key < start ORDER BY key DESC LIMIT 1;
    IF result IS NOT NULL THEN RETURN result; END IF;
    high := opening;
    beyond := true;
  END LOOP;
END $$;

-- The next key of any of these threads, in either direction.
CREATE OR REPLACE FUNCTION threadlog.next_key(owners bigint[], start bytea, inclusive boolean, reverse boolean) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
DECLARE
  owner bigint;
  result bytea;
BEGIN
  FOREACH owner IN ARRAY owners LOOP
    IF reverse THEN
      result := greatest(result, threadlog.key_before(owner, start));
    ELSE
      result := least(result, threadlog.key_behind(owner, start, inclusive));
    END IF;
  END LOOP;
  RETURN result;
END $$;

-- The position of the newest entry of any other key at a cut; 0 if there is none.
CREATE OR REPLACE FUNCTION threadlog.newest_entry(of_thread bigint, at_place bigint, other_than bytea) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  owners bigint[] := ARRAY(SELECT DISTINCT s.owner FROM threadlog.stretches(of_thread, at_place) s);
  named bytea := threadlog.next_key(owners, '', true, false);
  result bigint := 0;
BEGIN
  WHILE named IS NOT NULL LOOP
    IF named <> other_than THEN
      result := greatest(result, (
        SELECT position FROM threadlog.events
        WHERE position = threadlog.newest_of(of_thread, at_place, named) AND type <> 'delete'
      ));
    END IF;
    named := threadlog.next_key(owners, named, false, false);
  END LOOP;
  RETURN result;
END $$;

-- The newest entry that is left once a key is deleted: back along the latest-pointers to one that is still current.
CREATE OR REPLACE FUNCTION threadlog.latest_without(of_thread bigint, at_place bigint, latest_there bigint, deleted bytea) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  candidate bigint := latest_there;
  steps int := 0;
  entry record;
  before record;
BEGIN
  WHILE candidate > 0 LOOP
    SELECT thread, version, key INTO entry FROM threadlog.events WHERE position = candidate;
    IF entry.key <> deleted AND threadlog.newest_of(of_thread, at_place, entry.key) = candidate THEN RETURN candidate; END IF;
    -- Many versions of few keys: then going through the keys takes less.
    steps := steps + 1;
    IF steps > 64 THEN RETURN threadlog.newest_entry(of_thread, at_place, deleted); END IF;
    EXIT WHEN entry.version = 1;
    SELECT * INTO before FROM threadlog.owner_of(entry.thread, entry.version - 1);
    EXIT WHEN before.place IS NULL;
    SELECT latest INTO candidate FROM threadlog.events WHERE position = before.place;
  END LOOP;
  RETURN 0;
END $$;
`;
