/**
 * The removal of what tombstones have erased, and saved states, as SQL functions.
 *
 * @module
 */

/** The functions. */
export const PURGE = `
-- Where a thread's history began, as it was at a position: at its last tombstone, or its first event.
CREATE OR REPLACE FUNCTION threadlog.beginning_of(of_thread bigint, place bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT coalesce(
    (
      SELECT b.position FROM threadlog.bases b JOIN threadlog.events e ON e.position = b.position
      WHERE b.thread = of_thread AND b.position <= place AND b.origin_thread = 0 AND e.type = 'erase'
      ORDER BY b.position DESC LIMIT 1
    ),
    (SELECT created FROM threadlog.threads WHERE id = of_thread))
$$;

-- The events of a thread that living forks (and forks of forks) share.
CREATE OR REPLACE FUNCTION threadlog.shared_ranges(of_thread bigint) RETURNS int8multirange
LANGUAGE plpgsql STABLE AS $$
DECLARE
  base record;
  heir bigint := 0;
  of_heir int8multirange;
  result int8multirange := '{}';
BEGIN
  FOR base IN
    SELECT b.*, t.tombstone FROM threadlog.bases b JOIN threadlog.threads t ON t.id = b.thread
    WHERE b.origin_thread = of_thread AND b.origin_thread > 0 AND b.thread <> of_thread ORDER BY b.thread
  LOOP
    IF base.position < base.tombstone THEN
      -- Erased in the heir, too, but for what its own forks share.
      IF heir <> base.thread THEN
        heir := base.thread;
        of_heir := threadlog.shared_ranges(heir);
      END IF;
      CONTINUE WHEN NOT base.position <@ of_heir;
    END IF;
    result := result + int8multirange(
      int8range(threadlog.beginning_of(of_thread, base.origin_position), base.origin_position, '[]'));
  END LOOP;
  RETURN result;
END $$;

-- Notes that what a thread's tombstone has erased is to be removed.
CREATE OR REPLACE FUNCTION threadlog.request_purges(of_thread bigint, created bigint, parent_thread bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO threadlog.purges VALUES (of_thread) ON CONFLICT DO NOTHING;
  -- An erased ancestor keeps only what its forks share: with one fork less it may keep less. (But a living fork of this
  -- one needs all that this one inherited.)
  IF created <@ threadlog.shared_ranges(of_thread) THEN RETURN; END IF;
  INSERT INTO threadlog.purges
  WITH RECURSIVE ancestors AS (
    SELECT id, parent, tombstone FROM threadlog.threads WHERE id = parent_thread
    UNION ALL
    SELECT t.id, t.parent, t.tombstone FROM threadlog.threads t JOIN ancestors a ON t.id = a.parent
  )
  SELECT id FROM ancestors WHERE tombstone > 0
  ON CONFLICT DO NOTHING;
END $$;

-- Removes up to so many erased events; true while there may be more.
CREATE OR REPLACE FUNCTION threadlog.purge(maximum bigint, wait_ms bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  node threadlog.threads;
  gap int8range;
  removed bigint;
  remaining bigint := maximum;
BEGIN
  IF NOT EXISTS (SELECT FROM threadlog.purges) THEN RETURN false; END IF;
  PERFORM set_config('lock_timeout', wait_ms || 'ms', true);
  PERFORM FROM threadlog.lanes WHERE lane = 1 FOR NO KEY UPDATE;
  SELECT t.* INTO node FROM threadlog.purges p JOIN threadlog.threads t ON t.id = p.thread ORDER BY t.id LIMIT 1;
  IF node.id IS NULL THEN RETURN false; END IF;
  FOR gap IN SELECT unnest(int8multirange(int8range(1, node.tombstone)) - threadlog.shared_ranges(node.id)) LOOP
    DELETE FROM threadlog.events WHERE position IN (
      SELECT position FROM threadlog.events
      WHERE thread = node.id AND version <= node.erased AND position >= lower(gap) AND position < upper(gap)
      ORDER BY version LIMIT remaining
    );
    GET DIAGNOSTICS removed = ROW_COUNT;
    DELETE FROM threadlog.bases WHERE thread = node.id AND position >= lower(gap) AND position < upper(gap);
    UPDATE threadlog.lanes SET erased = erased + removed WHERE lane = 1;
    remaining := remaining - removed;
    IF remaining <= 0 THEN RETURN true; END IF;
  END LOOP;
  DELETE FROM threadlog.purges WHERE thread = node.id;
  RETURN true;
END $$;

-- Keeps a state, unless a tombstone came after its position. The lane's lock keeps tombstones out meanwhile.
CREATE OR REPLACE FUNCTION threadlog.save_state(named bytea, of_version bigint, at_position bigint, content bytea, wait_ms bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM set_config('lock_timeout', wait_ms || 'ms', true);
  PERFORM FROM threadlog.lanes WHERE lane = 1 AND tombstone <= at_position FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  INSERT INTO threadlog.states VALUES (named, of_version, at_position, content)
  ON CONFLICT (sha256(name)) DO UPDATE SET
    version = excluded.version, position = excluded.position, state = excluded.state;
END $$;
`;
