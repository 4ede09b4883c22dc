/**
 * A call of `append`, on its way to the server and back.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { AppendOutcome, AppendRequest, Piece, Placement } from "../../log/backend.ts";
import type { ThreadPath } from "../../log/ids.ts";
import { bytesOf, type Row, toHex } from "./driver.ts";
import { eventOf, nameBytes } from "./rows.ts";

/** What the server is sent: names and numbers as JSON, all payloads in one block of bytes. */
export interface Batch {
  readonly paths: readonly ThreadPath[];
  readonly json: object;
  readonly bytes: Uint8Array;
}

// JSON can't bring U+0000 to the server, so that names go in its notation of bytes. (Nor does a list of bytes survive
// the driver.)
function notation(bytes: Uint8Array): string {
  return `\\x${toHex(bytes)}`;
}

function nameNotation(name: string | undefined): string | null {
  return name === undefined ? null : notation(nameBytes(name));
}

/** Packs requests. */
export function packRequests(requests: readonly AppendRequest[]): Batch {
  const named = new Set<ThreadPath>();
  for (const { events, expects } of requests) {
    for (const { path } of expects) named.add(path);
    for (const { path, origin } of events) {
      named.add(path);
      if (origin !== undefined) named.add(origin.path);
    }
  }
  const paths = [...named];
  // The server counts from 1.
  const places = new Map(paths.map((path, index) => [path, index + 1]));
  const blocks: Uint8Array[] = [];
  let start = 1;
  const events: object[] = [];
  const packed = requests.map((request) => {
    const first = events.length + 1;
    for (const event of request.events) {
      events.push({
        path: places.get(event.path),
        type: nameNotation(event.type),
        key: nameNotation(event.key),
        id: nameNotation(event.id),
        schema: event.schema,
        form: event.form,
        base: event.base,
        origin_path: event.origin && places.get(event.origin.path),
        origin_version: event.origin?.version,
        digest: notation(event.digest),
        start,
        value: event.value?.length,
        state: event.state?.length,
        meta: event.meta?.length,
      });
      for (const block of [event.value, event.state, event.meta]) {
        if (block === undefined) continue;
        blocks.push(block);
        start += block.length;
      }
    }
    const expects = request.expects.map(({ path, version }) => ({ path: places.get(path), version }));
    return { first, last: events.length, expects };
  });
  const json = { paths: paths.map(nameNotation), requests: packed, events };
  return { paths, json, bytes: Buffer.concat(blocks) };
}

/** Packs a piece of another log. */
export function packPiece({ after, events, threads }: Piece): { readonly json: object; readonly bytes: Uint8Array } {
  const blocks: Uint8Array[] = [];
  let start = 1;
  const packed = events.map((event) => {
    const { position, version, time, latest, base, schema, form, link, origin, value, state, meta } = event;
    const row = {
      path: nameNotation(event.path),
      position,
      version,
      time,
      latest,
      base,
      schema,
      form,
      type: nameNotation(event.type),
      key: nameNotation(event.key),
      id: nameNotation(event.id),
      link: notation(link),
      origin_path: nameNotation(origin?.path),
      origin_version: origin?.version,
      start,
      value: value?.length,
      state: state?.length,
      meta: meta?.length,
    };
    for (const block of [value, state, meta]) {
      if (block === undefined) continue;
      blocks.push(block);
      start += block.length;
    }
    return row;
  });
  const records = threads.map(({ path, created, parent, erased }) => ({
    path: nameNotation(path),
    created,
    parent: nameNotation(parent?.path),
    parent_version: parent?.version,
    erased,
  }));
  return { json: { after, events: packed, threads: records }, bytes: Buffer.concat(blocks) };
}

type PackedOutcome =
  | { readonly kind: "appended"; readonly placements: readonly [number, number, number, number, string][] }
  | { readonly kind: "conflict"; readonly path: number; readonly expected: number; readonly actual: number }
  | { readonly kind: "duplicate"; readonly found: readonly (Row | null)[] }
  | { readonly kind: "no_origin"; readonly path: number; readonly version: number; readonly erased: boolean };

/** Unpacks what the server answered. */
export function unpackOutcomes(answer: unknown, paths: readonly ThreadPath[]): AppendOutcome[] {
  return (answer as PackedOutcome[]).map((outcome): AppendOutcome => {
    switch (outcome.kind) {
      case "appended":
        return { kind: "appended", placements: outcome.placements.map(placementOf) };
      case "duplicate":
        return { kind: "duplicate", found: outcome.found.map((row) => row === null ? undefined : eventOf(row)) };
      default:
        return { ...outcome, path: paths[outcome.path - 1]! };
    }
  });
}

function placementOf(
  [position, version, time, latest, link]: readonly [number, number, number, number, string],
): Placement {
  return { position, version, time, latest, link: bytesOf(`\\x${link}`) };
}
