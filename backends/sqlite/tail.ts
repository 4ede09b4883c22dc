/**
 * The index of the newest events, in memory.
 *
 * An append writes its event's row and nothing else: each index that it also had to keep up would cost it about as much
 * again. So the index tables are brought up to date for many events at once, and until then this stands in for them.
 * How far they go is kept in the file; whoever opens it reads the few rows after that.
 *
 * @module
 */

import { compareNames } from "../../log/ids.ts";
import type { Position, Version } from "../../log/position.ts";

/** What the index holds of an event. */
export interface TailEvent {
  readonly position: Position;
  readonly thread: number;
  readonly version: Version;
  readonly key: string | undefined;
  readonly id: string | undefined;
}

/** The newest events of one thread. */
interface ThreadTail {
  readonly first: Version;
  /** By version - first; a damaged event leaves a hole. */
  readonly positions: (Position | undefined)[];
  readonly byKey: Map<string, Position[]>;
  readonly byId: Map<string, Position>;
}

/** Finds the newest events. */
export class Tail {
  #threads = new Map<number, ThreadTail>();
  #size = 0;
  /** The index tables hold all events up to here; the tail holds those that follow, up to `#end`. */
  #start: Position;
  #end: Position;

  /** An empty tail behind a position. */
  constructor(start: Position) {
    this.#start = start;
    this.#end = start;
  }

  /** Where it starts: what is up to here is in the index tables. */
  get start(): Position {
    return this.#start;
  }

  /** The last position that it knows of. */
  get end(): Position {
    return this.#end;
  }

  /** How many events it holds. */
  get size(): number {
    return this.#size;
  }

  /** Adds an event at the end. */
  add({ position, thread, version, key, id }: TailEvent): void {
    let tail = this.#threads.get(thread);
    if (tail === undefined) {
      this.#threads.set(thread, tail = { first: version, positions: [], byKey: new Map(), byId: new Map() });
    }
    tail.positions[version - tail.first] = position;
    if (key !== undefined) {
      const positions = tail.byKey.get(key);
      if (positions === undefined) tail.byKey.set(key, [position]);
      else positions.push(position);
    }
    if (id !== undefined) tail.byId.set(id, position);
    this.#size++;
    this.#end = position;
  }

  /** Leaves out an event that is damaged: whoever reads it by its position is told. */
  pass(position: Position): void {
    this.#end = position;
  }

  /** The first version of a thread that is here; undefined if none is. */
  firstOf(thread: number): Version | undefined {
    return this.#threads.get(thread)?.first;
  }

  /** The last version of a thread that is here; 0 if none is. */
  lastOf(thread: number): Version {
    const tail = this.#threads.get(thread);
    return tail === undefined ? 0 : tail.first + tail.positions.length - 1;
  }

  /** The position of a thread's last event, if it is here. */
  headOf(thread: number): Position | undefined {
    return this.#threads.get(thread)?.positions.at(-1);
  }

  /** The position of a version, if it is here. */
  positionOf(thread: number, version: Version): Position | undefined {
    const tail = this.#threads.get(thread);
    return tail?.positions[version - tail.first];
  }

  /** The newest event of a key in (low, high], if it is here. */
  newest(thread: number, key: string, low: Position, high: Position): Position | undefined {
    const positions = this.#threads.get(thread)?.byKey.get(key);
    const found = positions?.findLast((position) => position <= high);
    return found !== undefined && found > low ? found : undefined;
  }

  /** The newest event under an id, if it is here. */
  byId(thread: number, id: string): Position | undefined {
    return this.#threads.get(thread)?.byId.get(id);
  }

  /** The thread's keys here that start with a prefix, in code point order or its reverse. */
  keys(thread: number, prefix: string, after: string | undefined, reverse: boolean): string[] {
    const keys = this.#threads.get(thread)?.byKey.keys();
    if (keys === undefined) return [];
    const sign = reverse ? -1 : 1;
    return [...keys]
      .filter((key) => key.startsWith(prefix) && (after === undefined || sign * compareNames(key, after) > 0))
      .sort((a, b) => sign * compareNames(a, b));
  }
}
