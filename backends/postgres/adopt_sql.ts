/**
 * Taking over events of another log as they are, as an SQL function: what sqlite/adopt.ts does in process.
 *
 * @module
 */

import { Raised } from "./lineage_sql.ts";

/** The function. */
export const ADOPT = `
-- Takes over a piece; gives the head, where the piece does not follow it, else null.
CREATE OR REPLACE FUNCTION threadlog.adopt(piece jsonb, bytes bytea, wait_ms bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  lane threadlog.lanes;
  fresh record;
  owner bigint;
  event record;
  head threadlog.threads;
  origin_owner bigint;
  origin_place bigint;
BEGIN
  PERFORM set_config('lock_timeout', wait_ms || 'ms', true);
  SELECT * INTO lane FROM threadlog.lanes WHERE threadlog.lanes.lane = 1 FOR NO KEY UPDATE;
  IF lane.position <> (piece ->> 'after')::bigint THEN RETURN lane.position; END IF;
  FOR fresh IN
    SELECT t.* FROM ROWS FROM (
      jsonb_to_recordset(piece -> 'threads') AS (path bytea, created bigint, parent bytea, parent_version bigint, erased bigint)
    ) WITH ORDINALITY AS t ORDER BY t.ordinality
  LOOP
    CONTINUE WHEN threadlog.number_of(fresh.path) IS NOT NULL;
    owner := NULL;
    IF fresh.parent IS NOT NULL THEN
      owner := threadlog.number_of(fresh.parent);
      IF owner IS NULL THEN
        RAISE EXCEPTION 'missing' USING ERRCODE = '${Raised.missing}', DETAIL = fresh.parent_version;
      END IF;
    END IF;
    lane.threads := lane.threads + 1;
    INSERT INTO threadlog.threads VALUES (
      lane.threads, fresh.path, fresh.created, owner, fresh.parent_version, 0, 0, 0, 0, decode(repeat('00', 32), 'hex'),
      fresh.erased, 0);
  END LOOP;
  FOR event IN
    SELECT e.* FROM jsonb_to_recordset(piece -> 'events') AS e (
      path bytea, position bigint, version bigint, time bigint, latest bigint, base bigint, schema bigint, form smallint,
      type bytea, key bytea, id bytea, link bytea, origin_path bytea, origin_version bigint,
      start int, value int, state int, meta int
    ) ORDER BY e.position
  LOOP
    lane.erased := lane.erased + event.position - lane.position - 1;
    lane.position := event.position;
    lane.time := event.time;
    SELECT * INTO head FROM threadlog.threads WHERE id = threadlog.number_of(event.path);
    INSERT INTO threadlog.events
      (position, thread, version, time, latest, base, schema, form, type, key, id, link, meta, value, state)
    VALUES (
      event.position, head.id, event.version, event.time, event.latest, event.base, event.schema, event.form,
      event.type, event.key, event.id, event.link,
      substr(bytes, event.start + coalesce(event.value, 0) + coalesce(event.state, 0), event.meta),
      substr(bytes, event.start, event.value),
      substr(bytes, event.start + coalesce(event.value, 0), event.state));
    IF event.type IN ('fork', 'restore', 'erase') THEN
      origin_owner := 0;
      origin_place := 0;
      IF event.origin_version > 0 THEN
        SELECT * INTO origin_owner, origin_place
        FROM threadlog.owner_of(threadlog.number_of(event.origin_path), event.origin_version);
        IF origin_place IS NULL THEN
          RAISE EXCEPTION 'missing' USING ERRCODE = '${Raised.missing}', DETAIL = event.origin_version;
        END IF;
      END IF;
      INSERT INTO threadlog.bases VALUES (head.id, event.position, origin_owner, origin_place);
    END IF;
    UPDATE threadlog.threads SET
      version = event.version, position = event.position, time = event.time, latest = event.latest, link = event.link
    WHERE id = head.id;
    IF event.type = 'erase' THEN
      lane.tombstone := event.position;
      DELETE FROM threadlog.states;
      UPDATE threadlog.threads SET erased = event.version - 1, tombstone = event.position WHERE id = head.id;
      PERFORM threadlog.request_purges(head.id, head.created, head.parent);
    END IF;
  END LOOP;
  UPDATE threadlog.lanes SET
    position = lane.position, time = lane.time, threads = lane.threads, erased = lane.erased, tombstone = lane.tombstone
  WHERE threadlog.lanes.lane = 1;
  RETURN NULL;
END $$;
`;
