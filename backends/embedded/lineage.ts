/**
 * How a thread's state and history are put together from stretches: its own events, and, behind each fork or restore,
 * the events that it continues from.
 *
 * @module
 */

import type { KeyRange, ReadPoint, ThreadRecord, VersionRange } from "../../log/backend.ts";
import { Form } from "../../log/backend.ts";
import { assert, ThreadlogError } from "../../log/errors.ts";
import { compareNames, showPath } from "../../log/ids.ts";
import type { Position, Version } from "../../log/position.ts";
import type { EventStore, KeyPosition, PackedEvent, Stretch, ThreadNode } from "./event_store.ts";

/** A chain (log/backend.ts) as the store keeps it. */
export type PackedChain = readonly PackedEvent[];

/** A point in the events of one thread. */
export interface Cut {
  readonly thread: number;
  readonly position: Position;
}

/** Where a version's event is: in the thread, or in the one it inherits it from. */
export function ownerOf(store: EventStore, node: ThreadNode, version: Version): Cut | undefined {
  let owner = node;
  while (owner.parent !== undefined && version <= owner.parent.version) owner = store.nodeById(owner.parent.id);
  const position = store.positionOf(owner.id, version);
  return position === undefined ? undefined : { thread: owner.id, position };
}

/** The thread's own event under an id. Where a fork keeps an erased one, its id is free again all the same. */
export function ownById(store: EventStore, node: ThreadNode, id: string): PackedEvent | undefined {
  const event = store.byId(node.id, id);
  return event !== undefined && event.version > node.erased ? event : undefined;
}

/** The cut that a read point stands for; undefined where the thread did not exist yet. */
export function cutAt(store: EventStore, node: ThreadNode, at: ReadPoint): Cut | undefined {
  if ("position" in at) {
    if (at.position < node.created) return undefined;
    if (at.position < node.tombstone) throw erasedError(node, `position ${at.position}`);
    return { thread: node.id, position: Math.min(at.position, node.position) };
  }
  if (at.version > node.version) {
    throw new ThreadlogError("not_found", `Thread ${showPath(node.path)} has no version ${at.version}`, {
      place: `thread ${showPath(node.path)}`,
      remedy: `Its head is version ${node.version}.`,
    });
  }
  if (at.version === 0) return undefined;
  if (at.version <= node.erased) throw erasedError(node, `version ${at.version}`);
  const cut = ownerOf(store, node, at.version);
  if (cut === undefined) throw missing(node, at.version);
  return cut;
}

function erasedError(node: ThreadNode, place: string): ThreadlogError {
  return new ThreadlogError("erased", `Thread ${showPath(node.path)} was erased through version ${node.erased}`, {
    place,
    remedy: "What was erased can't be read again; later versions can.",
  });
}

function missing(node: ThreadNode, version: Version): ThreadlogError {
  return new ThreadlogError("corrupt", `Thread ${showPath(node.path)} lacks version ${version}`, {
    place: `version ${version}`,
    remedy: "Run verify() for the full extent, and restore from a backup.",
  });
}

/** The stretches that make up the state at a cut, newest first. */
export function* stretches(store: EventStore, cut: Cut): Generator<Stretch> {
  let { thread, position: high } = cut;
  while (true) {
    const base = store.baseBefore(thread, high);
    yield { thread, low: base?.position ?? 0, high };
    if (base === undefined || base.origin.thread === 0) return;
    assert(base.origin.position < base.position, "a base lies before what is built on it");
    ({ thread, position: high } = base.origin);
  }
}

/** The newest event of a key at a cut, a deletion included. */
export function newestOf(store: EventStore, cut: Cut, key: string): PackedEvent | undefined {
  for (const stretch of stretches(store, cut)) {
    const event = store.newest(stretch, key);
    if (event !== undefined) return event;
  }
  return undefined;
}

/** All that is needed to read the value that an event left. */
export function chainOf(store: EventStore, newest: PackedEvent | undefined): PackedChain {
  if (newest === undefined || newest.type === "delete") return [];
  const chain = [newest];
  for (let event = newest; event.form !== Form.whole && event.packed.state === undefined;) {
    const base = event.base === undefined || event.base >= event.position ? undefined : store.event(event.base);
    if (base === undefined) {
      throw new ThreadlogError("corrupt", `The event at position ${event.position} builds on one that is not there`, {
        place: `position ${event.position}`,
        remedy: "Run verify() for the full extent, and restore from a backup.",
      });
    }
    chain.push(base);
    event = base;
  }
  return chain;
}

/** The thread's newest event at a cut. */
export function eventAt(store: EventStore, cut: Cut): PackedEvent {
  const node = store.nodeById(cut.thread);
  const exact = store.event(cut.position);
  if (exact !== undefined && exact.path === node.path) return exact;
  // Positions rise with versions: search the versions for the last position at or before the cut.
  let low = firstVersion(node);
  let high = node.version;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const position = store.positionOf(node.id, middle);
    if (position === undefined) throw missing(node, middle);
    if (position <= cut.position) low = middle;
    else high = middle - 1;
  }
  const position = store.positionOf(node.id, low);
  const event = position === undefined ? undefined : store.event(position);
  if (event === undefined) throw missing(node, low);
  return event;
}

function firstVersion(node: ThreadNode): Version {
  return Math.max(node.erased, node.parent?.version ?? 0) + 1;
}

/** What is known of a thread, as it was at a position. */
export function recordAt(store: EventStore, node: ThreadNode, position: Position): ThreadRecord | undefined {
  if (position < node.created) return undefined;
  const head = position >= node.position
    ? node
    : position < node.tombstone
    ? undefined
    : eventAt(store, { thread: node.id, position });
  // Before its tombstone nothing of an erased thread is told: it reads as empty.
  const { version, latest, time } = head ?? { version: 0, latest: 0, time: 0 };
  return {
    path: node.path,
    version,
    position: head?.position ?? 0,
    latest,
    created: node.created,
    time,
    erased: node.erased,
    parent: node.parent && { path: store.nodeById(node.parent.id).path, version: node.parent.version },
  };
}

/** The keys that are there at a cut, in order, each with its chain. */
export function listEntries(store: EventStore, cut: Cut, range: KeyRange): PackedChain[] {
  const sources = [...stretches(store, cut)].map((stretch) => new KeySource(store, stretch, range));
  const entries: PackedChain[] = [];
  while (entries.length < range.limit) {
    let first: KeyPosition | undefined;
    for (const source of sources) {
      const candidate = source.peek();
      if (candidate === undefined) continue;
      // Strictly earlier only: of equal keys the newest stretch, which comes first, decides.
      if (first === undefined || order(candidate.key, first.key, range.reverse) < 0) first = candidate;
    }
    if (first === undefined) break;
    for (const source of sources) if (source.peek()?.key === first.key) source.pop();
    const chain = chainOf(store, store.event(first.position));
    if (chain.length > 0) entries.push(chain);
  }
  return entries;
}

function order(a: string, b: string, reverse: boolean): number {
  return reverse ? compareNames(b, a) : compareNames(a, b);
}

/** The keys of one stretch, fetched a page at a time. */
class KeySource {
  readonly #store: EventStore;
  readonly #stretch: Stretch;
  readonly #range: KeyRange;
  #page: readonly KeyPosition[] = [];
  #index = 0;
  #next: string | undefined;
  #ended = false;

  constructor(store: EventStore, stretch: Stretch, range: KeyRange) {
    this.#store = store;
    this.#stretch = stretch;
    this.#range = range;
    this.#next = range.after;
  }

  peek(): KeyPosition | undefined {
    while (this.#index === this.#page.length && !this.#ended) {
      const { prefix, reverse, limit } = this.#range;
      const page = this.#store.keys(this.#stretch, prefix, this.#next, Math.min(limit, 256), reverse);
      this.#page = page.found;
      this.#index = 0;
      this.#next = page.next;
      this.#ended = page.next === undefined;
    }
    return this.#page[this.#index];
  }

  pop(): void {
    this.#index++;
  }
}

/** The events of a thread, inherited ones included. */
export function historyOf(store: EventStore, node: ThreadNode, range: VersionRange): PackedEvent[] {
  const owners: ThreadNode[] = [node];
  const from = Math.max(range.from, node.erased + 1);
  for (let owner = node; owner.parent !== undefined && from <= owner.parent.version;) {
    owner = store.nodeById(owner.parent.id);
    owners.push(owner);
  }
  if (!range.reverse) owners.reverse();
  const events: PackedEvent[] = [];
  for (const owner of owners) {
    const limit = range.limit - events.length;
    if (limit <= 0) break;
    const heir = owners[owners.indexOf(owner) + (range.reverse ? -1 : 1)];
    const to = Math.min(range.to, heir?.parent?.version ?? owner.version);
    const first = Math.max(from, (owner.parent?.version ?? 0) + 1);
    if (first <= to) events.push(...store.own(owner.id, first, to, limit, range.reverse));
  }
  return events;
}
