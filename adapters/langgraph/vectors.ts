/**
 * The vectors of a store's items: kept in the log beside them, and in memory for search.
 *
 * @module
 */

import { isBuiltIn } from "../../log/event.ts";
import type { Log } from "../../log/log.ts";
import type { Unit } from "./embedder.ts";

/** The vectors of an item, one for each text of it, as an entry holds them: little-endian float32. */
export interface StoredVectors {
  readonly vectors: readonly Uint8Array[];
}

/** The state of a thread of vectors. */
export type VectorsState = Record<string, StoredVectors>;

/** Vectors held in memory over all namespaces, in numbers. */
const MAX_HELD = 16 << 20;

interface Held {
  version: number;
  readonly items: Map<string, Unit[]>;
}

/** The vectors of namespaces, brought up to date by what was appended since. */
export class VectorIndex {
  readonly #log: Log;
  readonly #held = new Map<string, Held>();
  #size = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  /** The vectors of a namespace's items, by key. */
  async of(path: readonly string[]): Promise<ReadonlyMap<string, readonly Unit[]>> {
    const name = JSON.stringify(path);
    const thread = this.#log.thread<VectorsState>(path);
    const { version } = await thread.head();
    const held = this.#held.get(name) ?? { version: 0, items: new Map<string, Unit[]>() };
    if (held.version < version) {
      // Two searches at once may both read the same events: the result is the same.
      for await (const event of thread.replay({ from: held.version + 1, to: version })) {
        if (!isBuiltIn(event)) continue;
        if (event.type === "erase") held.items.clear();
        else if (event.type === "delete") held.items.delete(event.key);
        else if (event.type === "set") this.#set(held, event.key, event.value as StoredVectors);
      }
      held.version = version;
      this.#held.set(name, held);
      if (this.#size > MAX_HELD) this.#forgetOthers(name);
    }
    return held.items;
  }

  #set(held: Held, key: string, { vectors }: StoredVectors): void {
    const units = vectors.map(decodeVector);
    for (const unit of units) this.#size += unit.length;
    held.items.set(key, units);
  }

  #forgetOthers(name: string): void {
    const held = this.#held.get(name)!;
    this.#held.clear();
    this.#held.set(name, held);
    this.#size = 0;
    for (const units of held.items.values()) for (const unit of units) this.#size += unit.length;
  }
}

/** A vector as bytes, little-endian whatever the machine. */
export function encodeVector(unit: Unit): Uint8Array {
  const bytes = new Uint8Array(4 * unit.length);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < unit.length; i++) view.setFloat32(4 * i, unit[i]!, true);
  return bytes;
}

function decodeVector(bytes: Uint8Array): Unit {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const unit = new Float32Array(bytes.byteLength / 4);
  for (let i = 0; i < unit.length; i++) unit[i] = view.getFloat32(4 * i, true);
  return unit;
}

/** The greatest cosine of a query to an item's vectors. */
export function scoreOf(query: Unit, units: readonly Unit[]): number {
  let best = -Infinity;
  for (const unit of units) {
    let dot = 0;
    for (let i = 0; i < query.length; i++) dot += query[i]! * unit[i]!;
    if (dot > best) best = dot;
  }
  return best;
}

/** Something with a score. */
export interface Scored {
  readonly score: number;
}

/** Keeps the best of many without sorting all of them: a heap whose root is the worst that is kept. */
export class Best<Item extends Scored> {
  readonly #size: number;
  readonly #order: (a: Item, b: Item) => number;
  readonly #heap: Item[] = [];

  /** `order` says which of two equally good ones comes first. */
  constructor(size: number, order: (a: Item, b: Item) => number) {
    this.#size = size;
    this.#order = (a, b) => b.score - a.score || order(a, b);
  }

  /** How many are kept. */
  get count(): number {
    return this.#heap.length;
  }

  /** Whether something with this score could be kept. */
  admits(score: number): boolean {
    return this.#heap.length < this.#size || (this.#size > 0 && score >= this.#heap[0]!.score);
  }

  /** Keeps an item if it is among the best so far. */
  add(item: Item): void {
    const heap = this.#heap;
    if (heap.length === this.#size) {
      if (this.#size === 0 || !this.#isWorse(heap[0]!, item)) return;
      heap[0] = item;
      this.#sink(0);
      return;
    }
    let i = heap.push(item) - 1;
    for (let up = (i - 1) >> 1; i > 0 && this.#isWorse(heap[i]!, heap[up]!); up = (i - 1) >> 1) {
      [heap[i], heap[up]] = [heap[up]!, heap[i]!];
      i = up;
    }
  }

  #sink(i: number): void {
    const heap = this.#heap;
    while (true) {
      let worst = i;
      for (const child of [2 * i + 1, 2 * i + 2]) {
        if (child < heap.length && this.#isWorse(heap[child]!, heap[worst]!)) worst = child;
      }
      if (worst === i) return;
      [heap[i], heap[worst]] = [heap[worst]!, heap[i]!];
      i = worst;
    }
  }

  #isWorse(a: Item, b: Item): boolean {
    return this.#order(a, b) > 0;
  }

  /** What was kept, the best first. */
  sorted(): Item[] {
    return this.#heap.toSorted(this.#order);
  }
}
