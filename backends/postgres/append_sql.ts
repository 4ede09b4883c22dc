/**
 * The single serialized writer's inner part as SQL functions: what embedded/sequencer.ts does in process.
 *
 * @module
 */

import { Raised } from "./lineage_sql.ts";

const NO_LINK = `decode(repeat('00', 32), 'hex')`;

/** The functions. */
export const APPEND = `
-- Why a request can't be accepted, as the outcome that says so; null if it can.
CREATE OR REPLACE FUNCTION threadlog.refusal(
  heads threadlog.threads[], events threadlog.incoming[], first int, last int, expects jsonb
) RETURNS json
LANGUAGE plpgsql STABLE AS $$
DECLARE
  event threadlog.incoming;
  head threadlog.threads;
  expect record;
  duplicate threadlog.stored;
  duplicates json[] := '{}';
  is_duplicate boolean := false;
BEGIN
  FOR i IN first..last LOOP
    event := events[i];
    head := heads[event.path];
    duplicate := NULL;
    IF event.id IS NOT NULL AND head.id IS NOT NULL THEN
      SELECT * INTO duplicate FROM threadlog.stored
      WHERE thread = head.id AND substr(id, 1, 1000) = substr(event.id, 1, 1000) AND id = event.id AND version > head.erased;
    END IF;
    duplicates[i - first + 1] := CASE WHEN duplicate.position IS NOT NULL THEN row_to_json(duplicate) END;
    is_duplicate := is_duplicate OR duplicate.position IS NOT NULL;
  END LOOP;
  IF is_duplicate THEN RETURN json_build_object('kind', 'duplicate', 'found', duplicates); END IF;
  FOR expect IN SELECT * FROM jsonb_to_recordset(expects) AS e (path int, version bigint) LOOP
    head := heads[expect.path];
    IF coalesce(head.version, 0) <> expect.version THEN
      RETURN json_build_object(
        'kind', 'conflict', 'path', expect.path, 'expected', expect.version, 'actual', coalesce(head.version, 0));
    END IF;
  END LOOP;
  FOR i IN first..last LOOP
    event := events[i];
    CONTINUE WHEN event.origin_path IS NULL;
    head := heads[event.origin_path];
    IF head.id IS NULL OR event.origin_version > head.version OR event.origin_version BETWEEN 1 AND head.erased THEN
      RETURN json_build_object(
        'kind', 'no_origin', 'path', event.origin_path, 'version', event.origin_version,
        'erased', coalesce(event.origin_version BETWEEN 1 AND head.erased, false));
    END IF;
  END LOOP;
  RETURN NULL;
END $$;

-- Appends requests, each whole or not at all; gives the outcome of each.
CREATE OR REPLACE FUNCTION threadlog.append(batch jsonb, bytes bytea, now bigint, wait_ms bigint, durable boolean) RETURNS json
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  paths bytea[] := ARRAY(SELECT p::bytea FROM jsonb_array_elements_text(batch -> 'paths') WITH ORDINALITY AS x (p, n) ORDER BY n);
  events threadlog.incoming[] := ARRAY(SELECT e FROM jsonb_populate_recordset(NULL::threadlog.incoming, batch -> 'events') e);
  heads threadlog.threads[] := array_fill(NULL::threadlog.threads, ARRAY[cardinality(paths)]);
  changed boolean[] := array_fill(false, ARRAY[cardinality(paths)]);
  lane threadlog.lanes;
  head threadlog.threads;
  event threadlog.incoming;
  request record;
  origin_owner bigint;
  origin_place bigint;
  inherited threadlog.events;
  refused json;
  outcomes json[] := '{}';
  placements json[];
  start_position bigint;
  moment bigint;
  new_latest bigint;
BEGIN
  PERFORM set_config('lock_timeout', wait_ms || 'ms', true);
  IF NOT durable THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  -- From here to the commit nobody else appends, erases or purges: what is read below stays as it is.
  SELECT * INTO lane FROM threadlog.lanes WHERE threadlog.lanes.lane = 1 FOR NO KEY UPDATE;
  FOR i IN 1..cardinality(paths) LOOP
    SELECT * INTO head FROM threadlog.threads WHERE substr(path, 1, 1000) = substr(paths[i], 1, 1000) AND path = paths[i];
    heads[i] := head;
  END LOOP;
  start_position := lane.position;
  moment := greatest(now, lane.time);

  FOR request IN
    SELECT r.* FROM ROWS FROM (jsonb_to_recordset(batch -> 'requests') AS (first int, last int, expects jsonb)) WITH ORDINALITY AS r
    ORDER BY r.ordinality
  LOOP
    refused := threadlog.refusal(heads, events, request.first, request.last, request.expects);
    IF refused IS NOT NULL THEN
      outcomes := array_append(outcomes, refused);
      CONTINUE;
    END IF;
    placements := '{}';
    FOR i IN request.first..request.last LOOP
      event := events[i];
      head := heads[event.path];
      lane.position := lane.position + 1;

      -- The event that a fork or restore continues from; thread 0 is the empty state.
      origin_owner := 0;
      origin_place := 0;
      IF event.origin_version > 0 THEN
        SELECT * INTO origin_owner, origin_place
        FROM threadlog.owner_of((heads[event.origin_path]).id, event.origin_version);
        SELECT * INTO inherited FROM threadlog.events WHERE position = origin_place;
        IF inherited.position IS NULL THEN
          RAISE EXCEPTION 'missing' USING ERRCODE = '${Raised.missing}', DETAIL = event.origin_version;
        END IF;
      END IF;

      IF head.id IS NULL THEN
        lane.threads := lane.threads + 1;
        head := (lane.threads, paths[event.path], lane.position, NULL, NULL, 0, 0, 0, 0, ${NO_LINK}, 0, 0);
        IF event.type = 'fork' AND origin_owner > 0 THEN
          head.parent := origin_owner;
          head.parent_version := inherited.version;
          head.version := inherited.version;
          head.link := inherited.link;
          -- What the forked thread has erased by now is not inherited, even where another fork still keeps it.
          head.erased := (heads[event.origin_path]).erased;
        END IF;
        INSERT INTO threadlog.threads SELECT head.*;
      END IF;

      new_latest := CASE
        WHEN event.type IN ('set', 'patch') THEN lane.position
        WHEN event.type = 'erase' THEN 0
        WHEN event.type IN ('fork', 'restore') THEN CASE WHEN origin_owner > 0 THEN inherited.latest ELSE 0 END
        WHEN event.type = 'delete' THEN threadlog.latest_without(head.id, head.position, head.latest, event.key)
        ELSE head.latest
      END;
      head.version := head.version + 1;
      head.position := lane.position;
      head.time := moment;
      head.latest := new_latest;
      -- A tombstone begins a chain of its own: what came before it can't be held against anything any more.
      head.link := sha256(
        CASE WHEN event.type = 'erase' THEN ${NO_LINK} ELSE head.link END
          || event.digest || int8send(lane.position) || int8send(head.version) || int8send(moment));
      INSERT INTO threadlog.events
        (position, thread, version, time, latest, base, schema, form, type, key, id, link, meta, value, state)
      VALUES (
        lane.position, head.id, head.version, moment, new_latest, event.base, event.schema, event.form,
        event.type, event.key, event.id, head.link,
        substr(bytes, event.start + coalesce(event.value, 0) + coalesce(event.state, 0), event.meta),
        substr(bytes, event.start, event.value),
        substr(bytes, event.start + coalesce(event.value, 0), event.state));

      IF event.type IN ('fork', 'restore', 'erase') THEN
        INSERT INTO threadlog.bases VALUES (head.id, lane.position, origin_owner, origin_place);
      END IF;
      IF event.type = 'erase' THEN
        head.erased := head.version - 1;
        head.tombstone := lane.position;
        lane.tombstone := lane.position;
        DELETE FROM threadlog.states;
        -- Written now, as what forks share depends on which of them are erased.
        UPDATE threadlog.threads SET erased = head.erased, tombstone = head.tombstone WHERE id = head.id;
        PERFORM threadlog.request_purges(head.id, head.created, head.parent);
      END IF;
      heads[event.path] := head;
      changed[event.path] := true;
      placements := array_append(
        placements, json_build_array(lane.position, head.version, moment, new_latest, encode(head.link, 'hex')));
    END LOOP;
    outcomes := array_append(outcomes, json_build_object('kind', 'appended', 'placements', placements));
  END LOOP;

  IF lane.position > start_position THEN
    FOR i IN 1..cardinality(paths) LOOP
      CONTINUE WHEN NOT changed[i];
      head := heads[i];
      UPDATE threadlog.threads SET
        version = head.version, position = head.position, time = head.time, latest = head.latest, link = head.link,
        erased = head.erased, tombstone = head.tombstone
      WHERE id = head.id;
    END LOOP;
    UPDATE threadlog.lanes SET
      position = lane.position, time = moment, threads = lane.threads, tombstone = lane.tombstone
    WHERE threadlog.lanes.lane = 1;
  END IF;
  RETURN array_to_json(outcomes);
END $$;
`;
