/**
 * Rows of the server as the port knows them.
 *
 * @module
 */

import { type Chain, Form, type StoredEvent, type ThreadRecord } from "../../log/backend.ts";
import type { ThreadPath } from "../../log/ids.ts";
import { bytesOf, type Row } from "./driver.ts";

const utf8 = new TextEncoder();
const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A name as it is stored. */
export function nameBytes(name: string): Uint8Array {
  return utf8.encode(name);
}

// A row that comes inside of JSON has its bytes in the server's notation.
function bytes(row: Row, column: string): Uint8Array | undefined {
  const value = row[column];
  if (value === null) return undefined;
  return typeof value === "string" ? bytesOf(value) : value as Uint8Array;
}

function name(row: Row, column: string): string | undefined {
  const found = bytes(row, column);
  return found && text.decode(found);
}

/** An event. */
export function eventOf(row: Row): StoredEvent {
  return {
    path: name(row, "path") as ThreadPath,
    position: row.position as number,
    version: row.version as number,
    time: row.time as number,
    latest: row.latest as number,
    type: name(row, "type")!,
    key: name(row, "key"),
    id: name(row, "id"),
    schema: row.schema as number,
    form: row.form as Form,
    base: row.base as number | null ?? undefined,
    link: bytes(row, "link")!,
    meta: bytes(row, "meta"),
    value: bytes(row, "value"),
    state: bytes(row, "state"),
  };
}

/** A thread. */
export function recordOf(row: Row): ThreadRecord {
  const parent = name(row, "parent");
  return {
    path: name(row, "path") as ThreadPath,
    version: row.version as number,
    position: row.position as number,
    latest: row.latest as number,
    created: row.created as number,
    time: row.time as number,
    erased: row.erased as number,
    parent: parent === undefined ? undefined : { path: parent as ThreadPath, version: row.parent_version as number },
  };
}

/** Each chain ends with an event that is whole. */
export function chainsOf(events: readonly StoredEvent[]): Chain[] {
  const chains: Chain[] = [];
  let start = 0;
  events.forEach(({ form, state }, index) => {
    if (form !== Form.whole && state === undefined) return;
    chains.push(events.slice(start, index + 1));
    start = index + 1;
  });
  return chains;
}
