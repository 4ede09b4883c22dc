/**
 * How a thread's state is put together from stretches, as SQL functions: what embedded/lineage.ts does in process. Each
 * is STABLE, so that all seeks of one read see one state of the log.
 *
 * @module
 */

/** What the functions raise, and failures.ts turns into the library's errors; DETAIL holds a number. */
export const Raised = { notFound: "TL001", erased: "TL002", missing: "TL003", brokenChain: "TL004" } as const;

/** The functions. */
export const LINEAGE = `
-- The number of a thread; null where there is none of that name.
CREATE OR REPLACE FUNCTION threadlog.number_of(named bytea) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT id FROM threadlog.threads WHERE substr(path, 1, 1000) = substr(named, 1, 1000) AND path = named
$$;

-- Where a version's event is: in the thread, or in the one it inherits it from.
CREATE OR REPLACE FUNCTION threadlog.owner_of(of_thread bigint, wanted bigint, OUT owner bigint, OUT place bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  heir record;
BEGIN
  owner := of_thread;
  LOOP
    SELECT parent, parent_version INTO heir FROM threadlog.threads WHERE id = owner;
    EXIT WHEN heir.parent IS NULL OR wanted > heir.parent_version;
    owner := heir.parent;
  END LOOP;
  SELECT position INTO place FROM threadlog.events WHERE thread = owner AND version = wanted;
END $$;

-- The cut that a read point stands for; nulls where the thread did not exist yet.
CREATE OR REPLACE FUNCTION threadlog.cut_at(named bytea, at_version bigint, at_position bigint, OUT owner bigint, OUT place bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  node threadlog.threads;
BEGIN
  SELECT * INTO node FROM threadlog.threads WHERE substr(path, 1, 1000) = substr(named, 1, 1000) AND path = named;
  IF node.id IS NULL THEN
    RETURN;
  ELSIF at_version IS NULL THEN
    IF at_position < node.created THEN RETURN; END IF;
    IF at_position < node.tombstone THEN
      RAISE EXCEPTION 'erased' USING ERRCODE = '${Raised.erased}', DETAIL = node.erased;
    END IF;
    owner := node.id;
    place := least(at_position, node.position);
  ELSE
    IF at_version > node.version THEN
      RAISE EXCEPTION 'not found' USING ERRCODE = '${Raised.notFound}', DETAIL = node.version;
    END IF;
    IF at_version = 0 THEN RETURN; END IF;
    IF at_version <= node.erased THEN
      RAISE EXCEPTION 'erased' USING ERRCODE = '${Raised.erased}', DETAIL = node.erased;
    END IF;
    SELECT * INTO owner, place FROM threadlog.owner_of(node.id, at_version);
    IF place IS NULL THEN
      RAISE EXCEPTION 'missing' USING ERRCODE = '${Raised.missing}', DETAIL = at_version;
    END IF;
  END IF;
END $$;

-- The stretches that make up the state at a cut, newest first.
CREATE OR REPLACE FUNCTION threadlog.stretches(of_thread bigint, place bigint)
RETURNS TABLE (owner bigint, low bigint, high bigint) ROWS 10
LANGUAGE plpgsql STABLE AS $$
DECLARE
  base threadlog.bases;
BEGIN
  owner := of_thread;
  high := place;
  LOOP
    SELECT * INTO base FROM threadlog.bases WHERE thread = owner AND position <= high ORDER BY position DESC LIMIT 1;
    low := coalesce(base.position, 0);
    RETURN NEXT;
    EXIT WHEN coalesce(base.origin_thread, 0) = 0;
    owner := base.origin_thread;
    high := base.origin_position;
  END LOOP;
END $$;

-- The newest event of a key at a cut, a deletion included.
CREATE OR REPLACE FUNCTION threadlog.newest_of(of_thread bigint, place bigint, named bytea) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  owner bigint := of_thread;
  high bigint := place;
  base threadlog.bases;
  found_at bigint;
BEGIN
  LOOP
    SELECT * INTO base FROM threadlog.bases WHERE thread = owner AND position <= high ORDER BY position DESC LIMIT 1;
    SELECT position INTO found_at FROM threadlog.events
    WHERE thread = owner AND substr(key, 1, 1000) = substr(named, 1, 1000) AND key = named
      AND position > coalesce(base.position, 0) AND position <= high
    ORDER BY position DESC LIMIT 1;
    IF found_at IS NOT NULL OR coalesce(base.origin_thread, 0) = 0 THEN RETURN found_at; END IF;
    owner := base.origin_thread;
    high := base.origin_position;
  END LOOP;
END $$;

-- The position of a thread's newest own event at a cut.
CREATE OR REPLACE FUNCTION threadlog.event_at(of_thread bigint, place bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bigint;
  high bigint;
  middle bigint;
  found_at bigint;
BEGIN
  SELECT position INTO found_at FROM threadlog.events WHERE position = place AND thread = of_thread;
  IF found_at IS NOT NULL THEN RETURN found_at; END IF;
  -- Positions rise with versions: search the versions for the last position at or before the cut.
  SELECT greatest(erased, parent_version, 0) + 1, version INTO low, high FROM threadlog.threads WHERE id = of_thread;
  LOOP
    middle := (low + high + 1) / 2;
    SELECT position INTO found_at FROM threadlog.events WHERE thread = of_thread AND version = middle;
    IF found_at IS NULL THEN
      RAISE EXCEPTION 'missing' USING ERRCODE = '${Raised.missing}', DETAIL = middle;
    END IF;
    IF low >= high THEN RETURN found_at; END IF;
    IF found_at <= place THEN low := middle; ELSE high := middle - 1; END IF;
  END LOOP;
END $$;
`;
