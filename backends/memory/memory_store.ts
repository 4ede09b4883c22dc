/**
 * Events in arrays: the store behind `openLog(":memory:")`, and the model that the others are held against.
 *
 * @module
 */

import type { BackendStats, EventInput, LogHead, Placement, SavedState } from "../../log/backend.ts";
import { FIRST_LINK } from "../../log/digest.ts";
import { compareNames, type ThreadPath } from "../../log/ids.ts";
import type { Position, Version } from "../../log/position.ts";
import type { Base, EventStore, KeyPage, KeyPosition, PackedBytes, PackedEvent } from "../embedded/event_store.ts";
import type { Stretch, ThreadNode } from "../embedded/event_store.ts";

/** A list kept in order; finding a place takes O(log n) comparisons. */
class Sorted<T> {
  readonly items: T[] = [];
  readonly #compare: (a: T, b: T) => number;

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  /** The index of the first item that is not before `item`. */
  seek(item: T): number {
    return this.skip((other) => this.#compare(other, item) < 0);
  }

  /** The index of the first item for which `before` does not hold; it must hold for a leading run of items only. */
  skip(before: (item: T) => boolean): number {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (before(this.items[middle]!)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  add(item: T): void {
    this.items.splice(this.seek(item), 0, item);
  }
}

const byNumber = (a: number, b: number) => a - b;

/** One thread's own events, and the index of its keys. */
interface Thread {
  readonly node: ThreadNode;
  /** Positions by version, beginning with the first own version. */
  readonly first: Version;
  readonly positions: (Position | undefined)[];
  readonly keys: Sorted<string>;
  readonly byKey: Map<string, Sorted<Position>>;
  readonly byId: Map<string, Position>;
  readonly bases: Base[];
  readonly basesOn: Base[];
}

/** The store. */
export class MemoryStore implements EventStore {
  readonly engine = "memory";
  readonly #events: (PackedEvent | undefined)[] = [];
  readonly #threads: Thread[] = [];
  readonly #byPath = new Map<string, Thread>();
  readonly #paths = new Sorted<string>(compareNames);
  readonly #states = new Map<string, SavedState>();
  readonly #purges = new Set<ThreadNode>();
  #erased = 0;
  #time = 0;
  #lastTombstone: Position = 0;

  head(): LogHead {
    return { position: this.#events.length, time: this.#time };
  }

  node(path: ThreadPath): ThreadNode | undefined {
    return this.#byPath.get(path)?.node;
  }

  nodeById(id: number): ThreadNode {
    return this.#threads[id - 1]!.node;
  }

  nodes(prefix: string, after: string | undefined, limit: number): readonly ThreadNode[] {
    const nodes: ThreadNode[] = [];
    const from = after === undefined || compareNames(after, prefix) < 0 ? prefix : after;
    for (let i = this.#paths.seek(from); i < this.#paths.items.length && nodes.length < limit; i++) {
      const path = this.#paths.items[i]!;
      if (path === after) continue;
      if (!path.startsWith(prefix)) break;
      nodes.push(this.#byPath.get(path)!.node);
    }
    return nodes;
  }

  event(position: Position): PackedEvent | undefined {
    return this.#events[position - 1];
  }

  positionOf(thread: number, version: Version): Position | undefined {
    const { first, positions } = this.#threads[thread - 1]!;
    return positions[version - first];
  }

  newest({ thread, low, high }: Stretch, key: string): PackedEvent | undefined {
    const position = this.#newestPosition(thread, low, high, key);
    return position === undefined ? undefined : this.event(position);
  }

  #newestPosition(thread: number, low: Position, high: Position, key: string): Position | undefined {
    const positions = this.#threads[thread - 1]!.byKey.get(key);
    const position = positions?.items[positions.seek(high + 1) - 1];
    return position !== undefined && position > low ? position : undefined;
  }

  keys(
    { thread, low, high }: Stretch,
    prefix: string,
    after: string | undefined,
    limit: number,
    reverse: boolean,
  ): KeyPage {
    const { keys } = this.#threads[thread - 1]!;
    const found: KeyPosition[] = [];
    const step = reverse ? -1 : 1;
    let index = reverse ? this.#lastBelow(keys, prefix, after) : this.#firstAbove(keys, prefix, after);
    for (; index >= 0 && index < keys.items.length; index += step) {
      const key = keys.items[index]!;
      if (!key.startsWith(prefix)) break;
      if (found.length === limit) return { found, next: found.at(-1)!.key };
      const position = this.#newestPosition(thread, low, high, key);
      if (position !== undefined) found.push({ key, position });
    }
    return { found, next: undefined };
  }

  #firstAbove(keys: Sorted<string>, prefix: string, after: string | undefined): number {
    if (after === undefined || compareNames(after, prefix) < 0) return keys.seek(prefix);
    const index = keys.seek(after);
    return keys.items[index] === after ? index + 1 : index;
  }

  #lastBelow(keys: Sorted<string>, prefix: string, after: string | undefined): number {
    const behindPrefix = keys.skip((key) => key.startsWith(prefix) || compareNames(key, prefix) < 0);
    return Math.min(behindPrefix, after === undefined ? Infinity : keys.seek(after)) - 1;
  }

  own(thread: number, from: Version, to: Version, limit: number, reverse: boolean): readonly PackedEvent[] {
    const { node, first } = this.#threads[thread - 1]!;
    const low = Math.max(from, first);
    const high = Math.min(to, node.version);
    const events: PackedEvent[] = [];
    for (let i = 0; i <= high - low && events.length < limit; i++) {
      const position = this.positionOf(thread, reverse ? high - i : low + i);
      const event = position === undefined ? undefined : this.event(position);
      if (event !== undefined) events.push(event);
    }
    return events;
  }

  scan(after: Position, to: Position, limit: number): readonly PackedEvent[] {
    const events: PackedEvent[] = [];
    const end = Math.min(to, this.#events.length);
    for (let position = after + 1; position <= end && events.length < limit; position++) {
      const event = this.event(position);
      if (event !== undefined) events.push(event);
    }
    return events;
  }

  byId(thread: number, id: string): PackedEvent | undefined {
    const position = this.#threads[thread - 1]!.byId.get(id);
    return position === undefined ? undefined : this.event(position);
  }

  positionAt(time: number, to: Position): Position {
    let low = 0;
    let high = to;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      // Erased positions tell no time: the next one before them that does decides.
      let known = middle;
      while (known > low && this.event(known) === undefined) known--;
      if (known === low || this.event(known)!.time <= time) low = middle;
      else high = known - 1;
    }
    return low;
  }

  baseBefore(thread: number, position: Position): Base | undefined {
    return this.#threads[thread - 1]!.bases.findLast((base) => base.position <= position);
  }

  basesOn(thread: number): readonly Base[] {
    return this.#threads[thread - 1]!.basesOn;
  }

  createNode(path: ThreadPath, created: Position, parent: ThreadNode["parent"], erased: Version): ThreadNode {
    const node: ThreadNode = {
      id: this.#threads.length + 1,
      path,
      created,
      parent,
      version: 0,
      position: 0,
      time: 0,
      latest: 0,
      link: FIRST_LINK,
      erased,
      tombstone: 0,
    };
    const thread: Thread = {
      node,
      first: (parent?.version ?? 0) + 1,
      positions: [],
      keys: new Sorted(compareNames),
      byKey: new Map(),
      byId: new Map(),
      bases: [],
      basesOn: [],
    };
    this.#threads.push(thread);
    this.#byPath.set(path, thread);
    this.#paths.add(path);
    return node;
  }

  insert(node: ThreadNode, event: EventInput, packed: PackedBytes, placement: Placement): void {
    const thread = this.#threads[node.id - 1]!;
    const { digest: _digest, origin: _origin, value: _value, state: _state, ...content } = event;
    this.#events.push({ ...content, ...placement, packed });
    this.#time = placement.time;
    thread.positions.push(placement.position);
    if (event.id !== undefined) thread.byId.set(event.id, placement.position);
    if (event.key !== undefined) {
      let positions = thread.byKey.get(event.key);
      if (positions === undefined) {
        thread.byKey.set(event.key, positions = new Sorted(byNumber));
        thread.keys.add(event.key);
      }
      positions.items.push(placement.position);
    }
    node.version = placement.version;
    node.position = placement.position;
    node.time = placement.time;
    node.latest = placement.latest;
    node.link = placement.link;
  }

  insertBase(base: Base): void {
    this.#threads[base.thread - 1]!.bases.push(base);
    if (base.origin.thread !== 0) this.#threads[base.origin.thread - 1]!.basesOn.push(base);
  }

  erase(node: ThreadNode, through: Version, tombstone: Position): void {
    node.erased = through;
    node.tombstone = tombstone;
    this.#lastTombstone = tombstone;
    this.#states.clear();
    this.#purges.add(node);
  }

  nextToPurge(): ThreadNode | undefined {
    return this.#purges.values().next().value;
  }

  requestPurge(node: ThreadNode): void {
    this.#purges.add(node);
  }

  purged(node: ThreadNode): void {
    this.#purges.delete(node);
  }

  remove(node: ThreadNode, low: Position, high: Position, limit: number): number {
    const thread = this.#threads[node.id - 1]!;
    let removed = 0;
    for (let i = 0; i < thread.positions.length && removed < limit; i++) {
      const position = thread.positions[i];
      if (position === undefined || position <= low || position >= high) continue;
      const event = this.event(position)!;
      if (event.id !== undefined && thread.byId.get(event.id) === position) thread.byId.delete(event.id);
      if (event.key !== undefined) this.#forget(thread, event.key, position);
      this.#events[position - 1] = undefined;
      thread.positions[i] = undefined;
      removed++;
    }
    this.#erased += removed;
    const dead = (base: Base) => base.position > low && base.position < high;
    for (const base of thread.bases.filter(dead)) {
      if (base.origin.thread === 0) continue;
      const { basesOn } = this.#threads[base.origin.thread - 1]!;
      basesOn.splice(basesOn.indexOf(base), 1);
    }
    thread.bases.splice(0, Infinity, ...thread.bases.filter((base) => !dead(base)));
    return removed;
  }

  #forget(thread: Thread, key: string, position: Position): void {
    const positions = thread.byKey.get(key)!;
    positions.items.splice(positions.seek(position), 1);
    if (positions.items.length > 0) return;
    thread.byKey.delete(key);
    thread.keys.items.splice(thread.keys.seek(key), 1);
  }

  loadState(name: string): SavedState | undefined {
    return this.#states.get(name);
  }

  saveState(name: string, saved: SavedState): void {
    if (saved.position >= this.#lastTombstone) this.#states.set(name, saved);
  }

  counts(): Pick<BackendStats, "threads" | "events" | "erased" | "purging"> {
    const events = this.#events.length - this.#erased;
    return { threads: this.#threads.length, events, erased: this.#erased, purging: this.#purges.size > 0 };
  }
}
