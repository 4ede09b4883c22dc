/**
 * From threads, versions, keys and ids to positions: the index tables, and in front of them the newest events.
 *
 * @module
 */

import { compareNames } from "../../log/ids.ts";
import type { Position, Version } from "../../log/position.ts";
import type { KeyPage, KeyPosition, Stretch } from "../embedded/event_store.ts";
import { behind, bytes, decodeName, integer, keyBlob, keyOf } from "./cells.ts";
import type { Row } from "./driver.ts";
import type { Statements } from "./statements.ts";
import { Tail, type TailEvent } from "./tail.ts";

/** The index tables are brought up to date once so many events are missing: about a millisecond's work. */
const INDEX_DUE = 256;

/** Of how many threads the greatest id is remembered. */
const MAX_LAST_IDS = 10_000;

const utf8 = new TextEncoder();

/** The index of one file. */
export class EventIndex {
  readonly #sql: Statements;
  #tailSoFar: Tail | undefined;
  #isTailCurrent = false;
  /** By thread, as long as the tables stay as they are; "" where there is none, null where it can't be told. */
  readonly #lastIds = new Map<number, string | null>();

  constructor(statements: Statements) {
    this.#sql = statements;
  }

  /** Looks again for what others have written. */
  forget(): void {
    this.#isTailCurrent = false;
    this.#lastIds.clear();
  }

  /** Drops the tail, after a transaction of ours was undone. */
  undo(): void {
    this.forget();
    this.#tailSoFar = undefined;
  }

  /** The newest events, which the index tables do not have yet. */
  get #tail(): Tail {
    if (this.#isTailCurrent) return this.#tailSoFar!;
    const indexed = integer(this.#sql.indexed.get(), "value");
    let tail = this.#tailSoFar;
    if (tail?.start !== indexed) tail = new Tail(indexed);
    for (const row of this.#sql.unindexed.all(tail.end)) addRow(tail, row);
    this.#tailSoFar = tail;
    this.#isTailCurrent = true;
    return tail;
  }

  /** Adds an event that is being inserted: the one behind the last. */
  add(event: TailEvent): void {
    // A tail that is read only now holds it already.
    if (this.#tail.end < event.position) this.#tail.add(event);
  }

  /** Brings the index tables up to date, if so many events are missing. Runs inside a transaction. */
  flush(atLeast: number = INDEX_DUE): void {
    const { start, end, size } = this.#tail;
    if (size < atLeast) return;
    for (const statement of [this.#sql.indexVersions, this.#sql.indexKeys, this.#sql.indexIds]) {
      statement.run(start, end);
    }
    this.#sql.setIndexed.run(end);
    this.#lastIds.clear();
    this.#tailSoFar = new Tail(end);
  }

  /** The position of a thread's last event. */
  headOf(thread: number): Position | undefined {
    const recent = this.#tail.headOf(thread);
    if (recent !== undefined) return recent;
    return positionIn(this.#sql.headOf.get(thread));
  }

  /** The position of a version. */
  positionOf(thread: number, version: Version): Position | undefined {
    return this.#tail.positionOf(thread, version) ?? positionIn(this.#sql.positionOf.get(thread, version));
  }

  /** The position of a key's newest event in a stretch. */
  newest({ thread, low, high }: Stretch, key: string): Position | undefined {
    return this.#tail.newest(thread, key, low, high) ??
      positionIn(this.#sql.newest.get(thread, keyBlob(key), low, high));
  }

  /** The position of the newest event under an id. */
  byId(thread: number, id: string): Position | undefined {
    const recent = this.#tail.byId(thread, id);
    if (recent !== undefined) return recent;
    // Ids that begin with their time are greater than all before them: one look tells that for many to come.
    const last = this.#lastIdOf(thread);
    return last !== null && compareNames(id, last) > 0
      ? undefined
      : positionIn(this.#sql.byId.get(thread, utf8.encode(id)));
  }

  /** The greatest id of a thread that the tables have. */
  #lastIdOf(thread: number): string | null {
    let last = this.#lastIds.get(thread);
    if (last !== undefined) return last;
    const row = this.#sql.lastId.get(thread);
    try {
      last = row === undefined ? "" : decodeName(row, "id");
    } catch {
      last = null; // it is damaged
    }
    if (this.#lastIds.size >= MAX_LAST_IDS) this.#lastIds.clear();
    this.#lastIds.set(thread, last);
    return last;
  }

  /** The first version of a thread that the tables do not have; Infinity if they have all. */
  firstRecent(thread: number): Version {
    return this.#tail.firstOf(thread) ?? Infinity;
  }

  /** The positions of versions that the tables do not have. */
  recent(thread: number, from: Version, to: Version, limit: number, reverse: boolean): Position[] {
    const tail = this.#tail;
    const first = Math.max(from, tail.firstOf(thread) ?? Infinity);
    const last = Math.min(to, tail.lastOf(thread));
    const positions: Position[] = [];
    for (let i = 0; i <= last - first && positions.length < limit; i++) {
      const position = tail.positionOf(thread, reverse ? last - i : first + i);
      if (position !== undefined) positions.push(position);
    }
    return positions;
  }

  /** The keys of a stretch and their newest positions, a page of them. */
  keys(
    { thread, low, high }: Stretch,
    prefix: string,
    after: string | undefined,
    limit: number,
    reverse: boolean,
  ): KeyPage {
    // Keys end with a zero byte, so "" (a TEXT, before all BLOBs) starts before every key and `prefix` before its own.
    const start = prefix === "" ? "" : utf8.encode(prefix);
    const end = behind(prefix);
    let rows: Row[];
    if (reverse) {
      const from = after === undefined ? end : lesser(keyBlob(after), end);
      rows = this.#sql.keysDown.all(thread, from, start, low, high, limit + 1);
    } else {
      const from = after === undefined ? start : greater(keyBlob(after), start);
      rows = this.#sql.keysUp.all(thread, from, end, low, high, limit + 1);
    }
    const more = rows.length > limit;
    if (more) rows.pop();
    const positions = new Map(
      rows.map((row) => [keyOf(bytes(row, "key")!), row.position === null ? undefined : integer(row, "position")]),
    );
    const next = more ? keyOf(bytes(rows.at(-1)!, "key")!) : undefined;
    const tail = this.#tail;
    const sign = reverse ? -1 : 1;
    const recent = tail.keys(thread, prefix, after, reverse)
      .filter((key) => next === undefined || sign * compareNames(key, next) <= 0);
    const keys = recent.length === 0 ? [...positions.keys()] : [...new Set([...positions.keys(), ...recent])];
    if (recent.length > 0) keys.sort((a, b) => sign * compareNames(a, b));
    const found: KeyPosition[] = [];
    for (const key of keys) {
      const position = tail.newest(thread, key, low, high) ?? positions.get(key);
      if (position !== undefined) found.push({ key, position });
    }
    return { found, next };
  }

  /** Removes up to `limit` events of a thread in (low, high), before a version, from the tables. Their positions. */
  remove(thread: number, before: Version, low: Position, high: Position, limit: number): Position[] {
    this.flush(1); // so that there is nothing to be removed from the tail
    const positions = this.#sql.removable.all(thread, before, low, high, limit).map((row) => integer(row, "position"));
    const { removeVersion, removeKey, removeId } = this.#sql;
    for (const position of positions) {
      for (const statement of [removeVersion, removeKey, removeId]) statement.run(position);
    }
    return positions;
  }
}

function addRow(tail: Tail, row: Row): void {
  const position = integer(row, "position");
  try {
    const key = bytes(row, "key");
    tail.add({
      position,
      thread: integer(row, "thread"),
      version: integer(row, "version"),
      key: key && keyOf(key),
      id: row.id === null ? undefined : decodeName(row, "id"),
    });
  } catch {
    tail.pass(position);
  }
}

function positionIn(row: Row | undefined): Position | undefined {
  return row && integer(row, "position");
}

function greater(a: Uint8Array, b: Uint8Array | ""): Uint8Array {
  return b === "" || compareBytes(a, b) >= 0 ? a : b;
}

function lesser(a: Uint8Array, b: Uint8Array): Uint8Array {
  return compareBytes(a, b) <= 0 ? a : b;
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return a.length - b.length;
}
