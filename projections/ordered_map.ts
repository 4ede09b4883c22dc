/**
 * An immutable map in key order: a persistent B+-tree. A change copies one path of O(log n) small nodes and shares the
 * rest, so keeping a reference is a snapshot.
 *
 * @module
 */

import { invalid } from "../log/errors.ts";
import { compareNames } from "../log/ids.ts";

/** The most entries of a leaf and children of a branch. */
const MAX_WIDTH = 32;
/** A quarter rather than half, lest a node at the bound split and merge in turn as entries come and go. */
const MIN_WIDTH = MAX_WIDTH / 4;

// Leaf and branch have the same fields in the same order, so that engines see one shape and property reads stay fast.
interface Leaf<V> {
  readonly keys: readonly string[];
  readonly values: readonly V[];
  readonly children: undefined;
  readonly size: number;
}

interface Branch<V> {
  /** One fewer than children: keys[i] is above all of children[i] and not above any of children[i + 1]. */
  readonly keys: readonly string[];
  readonly values: undefined;
  readonly children: readonly Node<V>[];
  /** How many entries are below. */
  readonly size: number;
}

type Node<V> = Leaf<V> | Branch<V>;

/** Which entries to list; all of them by default. */
export interface ScanOptions {
  /** Only keys that start with this. */
  readonly prefix?: string | undefined;
  /** Only keys after this one in the order of the scan. */
  readonly after?: string | undefined;
  /** From the last to the first. */
  readonly reverse?: boolean | undefined;
}

/** An immutable map from strings to values, in code point order of the keys. */
export class OrderedMap<V> {
  readonly #root: Node<V>;
  /**
   * Whether no key holds a surrogate. Then the engine's own comparison, which is much faster, orders keys as
   * `compareNames` does; a looked-up key with a surrogate may lead anywhere, but is not in the map.
   */
  readonly #isNative: boolean;

  private constructor(root: Node<V>, isNative: boolean) {
    this.#root = root;
    this.#isNative = isNative;
  }

  static readonly #empty = new OrderedMap<never>(leaf([], []), true);

  /** The map without entries. */
  static empty<V>(): OrderedMap<V> {
    return OrderedMap.#empty as OrderedMap<unknown> as OrderedMap<V>;
  }

  /** The map of entries that are in order already, without duplicates: linear, and denser than the same by `set`. */
  static from<V>(sortedEntries: Iterable<readonly [string, V]>): OrderedMap<V> {
    const keys: string[] = [];
    const values: V[] = [];
    let isNative = true;
    for (const [key, value] of sortedEntries) {
      if (keys.length > 0 && compareNames(keys[keys.length - 1]!, key) >= 0) {
        throw invalid("Entries are out of order", JSON.stringify(key), "Sort them with compareNames, each key once.");
      }
      isNative &&= !hasSurrogate(key);
      keys.push(key);
      values.push(value);
    }
    if (keys.length === 0) return OrderedMap.empty();
    let groups = spread(keys.length);
    let nodes: Node<V>[] = groups.map(([from, to]) => leaf(keys.slice(from, to), values.slice(from, to)));
    let firstKeys = groups.map(([from]) => keys[from]!);
    while (nodes.length > 1) {
      groups = spread(nodes.length);
      nodes = groups.map(([from, to]) => branch(firstKeys.slice(from + 1, to), nodes.slice(from, to)));
      firstKeys = groups.map(([from]) => firstKeys[from]!);
    }
    return new OrderedMap(nodes[0]!, isNative);
  }

  /** How many entries there are. */
  get size(): number {
    return this.#root.size;
  }

  /** The value of a key; undefined if there is none. */
  get(key: string): V | undefined {
    const { keys, values } = this.#leafFor(key);
    const index = rank(keys, key, this.#isNative);
    return keys[index] === key ? values[index] : undefined;
  }

  /** Whether there is a value for a key. */
  has(key: string): boolean {
    const { keys } = this.#leafFor(key);
    return keys[rank(keys, key, this.#isNative)] === key;
  }

  #leafFor(key: string): Leaf<V> {
    let node = this.#root;
    while (node.children !== undefined) node = node.children[childIndex(node, key, this.#isNative)]!;
    return node;
  }

  /** A map in which the key has the value; this one if it has it already. */
  set(key: string, value: V): OrderedMap<V> {
    const isNative = this.#isNative && !hasSurrogate(key);
    const root = inserted(this.#root, key, value, isNative);
    if (root === this.#root) return this;
    if (width(root) <= MAX_WIDTH) return new OrderedMap(root, isNative);
    const [left, separator, right] = split(root);
    return new OrderedMap<V>(branch([separator], [left, right]), isNative);
  }

  /** A map without the key; this one if it has none. */
  delete(key: string): OrderedMap<V> {
    let root = removed(this.#root, key, this.#isNative);
    if (root === this.#root) return this;
    if (root.size === 0) return OrderedMap.empty();
    while (root.children?.length === 1) root = root.children[0]!;
    return new OrderedMap(root, this.#isNative);
  }

  /** The entry with the lowest key. */
  first(): [string, V] | undefined {
    let node = this.#root;
    while (node.children !== undefined) node = node.children[0]!;
    return node.size === 0 ? undefined : [node.keys[0]!, node.values[0]!];
  }

  /** The entry with the highest key. */
  last(): [string, V] | undefined {
    let node = this.#root;
    while (node.children !== undefined) node = node.children.at(-1)!;
    return node.size === 0 ? undefined : [node.keys.at(-1)!, node.values.at(-1)!];
  }

  /** The entries in order, found as they are asked for: O(log n) for the first, O(1) for the next. */
  *entries({ prefix = "", after, reverse = false }: ScanOptions = {}): IterableIterator<[string, V]> {
    // Keys with a common prefix lie side by side, so a scan goes from one end of them until the prefix ends.
    const isBefore = reverse
      ? (key: string) =>
        (key.startsWith(prefix) || compareNames(key, prefix) < 0) &&
        (after === undefined || compareNames(key, after) < 0)
      : (key: string) => compareNames(key, prefix) < 0 || after !== undefined && compareNames(key, after) <= 0;
    const step = reverse ? -1 : 1;
    for (const [{ keys, values }, start] of leavesFrom(this.#root, isBefore, step)) {
      for (let i = reverse ? start - 1 : start; i >= 0 && i < keys.length; i += step) {
        if (!keys[i]!.startsWith(prefix)) return;
        yield [keys[i]!, values[i]!];
      }
    }
  }

  /** The keys in order, as `entries` lists them. */
  *keys(options?: ScanOptions): IterableIterator<string> {
    for (const [key] of this.entries(options)) yield key;
  }
}

// ---- nodes

function leaf<V>(keys: readonly string[], values: readonly V[]): Leaf<V> {
  return { keys, values, children: undefined, size: keys.length };
}

function branch<V>(keys: readonly string[], children: readonly Node<V>[], size = sizeOf(children)): Branch<V> {
  return { keys, values: undefined, children, size };
}

function sizeOf(nodes: readonly Node<unknown>[]): number {
  let size = 0;
  for (const node of nodes) size += node.size;
  return size;
}

function width(node: Node<unknown>): number {
  return node.children === undefined ? node.keys.length : node.children.length;
}

function hasSurrogate(key: string): boolean {
  return /[\ud800-\udfff]/.test(key);
}

/** How many of the keys, which are in order, are before a place. */
function countBefore(keys: readonly string[], isBefore: (key: string) => boolean): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(keys[middle]!)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** As countBefore for the keys below a key; a loop of its own because every lookup runs it. */
function rank(keys: readonly string[], key: string, isNative: boolean): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isNative ? keys[middle]! < key : compareNames(keys[middle]!, key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function childIndex(node: Branch<unknown>, key: string, isNative: boolean): number {
  const index = rank(node.keys, key, isNative);
  return node.keys[index] === key ? index + 1 : index;
}

/** The leaves from a place on, upwards or downwards, each with how many of its keys are before the place. */
function* leavesFrom<V>(node: Node<V>, isBefore: (key: string) => boolean, step: 1 | -1): Generator<[Leaf<V>, number]> {
  const start = countBefore(node.keys, isBefore);
  if (node.children === undefined) yield [node, start];
  else {
    for (let i = start; i >= 0 && i < node.children.length; i += step) {
      yield* leavesFrom(node.children[i]!, isBefore, step);
    }
  }
}

// ---- changes

/** The node with the key set, perhaps one wider than allowed: its parent splits it. The same node if nothing changes. */
function inserted<V>(node: Node<V>, key: string, value: V, isNative: boolean): Node<V> {
  if (node.children === undefined) {
    const index = rank(node.keys, key, isNative);
    if (node.keys[index] !== key) {
      return leaf(node.keys.toSpliced(index, 0, key), node.values.toSpliced(index, 0, value));
    }
    return Object.is(node.values[index], value) ? node : leaf(node.keys, replaced(node.values, index, value));
  }
  const index = childIndex(node, key, isNative);
  const before = node.children[index]!;
  const after = inserted(before, key, value, isNative);
  if (after === before) return node;
  const size = node.size - before.size + after.size;
  if (width(after) <= MAX_WIDTH) return branch(node.keys, replaced(node.children, index, after), size);
  const [left, separator, right] = split(after);
  return branch(node.keys.toSpliced(index, 0, separator), node.children.toSpliced(index, 1, left, right), size);
}

/** The node without the key, perhaps narrower than allowed: its parent merges it. The same node if nothing changes. */
function removed<V>(node: Node<V>, key: string, isNative: boolean): Node<V> {
  if (node.children === undefined) {
    const index = rank(node.keys, key, isNative);
    return node.keys[index] === key ? leaf(node.keys.toSpliced(index, 1), node.values.toSpliced(index, 1)) : node;
  }
  const index = childIndex(node, key, isNative);
  const before = node.children[index]!;
  const after = removed(before, key, isNative);
  if (after === before) return node;
  const children = replaced(node.children, index, after);
  if (width(after) >= MIN_WIDTH) return branch(node.keys, children, node.size - 1);

  const at = Math.max(0, index - 1);
  const merged = merge(children[at]!, node.keys[at]!, children[at + 1]!);
  if (width(merged) <= MAX_WIDTH) {
    return branch(node.keys.toSpliced(at, 1), children.toSpliced(at, 2, merged), node.size - 1);
  }
  const [left, separator, right] = split(merged);
  return branch(replaced(node.keys, at, separator), children.toSpliced(at, 2, left, right), node.size - 1);
}

function replaced<T>(array: readonly T[], index: number, item: T): T[] {
  // Faster than with(), in JavaScriptCore and V8.
  const copy = array.slice();
  copy[index] = item;
  return copy;
}

function split<V>({ keys, values, children }: Node<V>): [Node<V>, string, Node<V>] {
  if (children === undefined) {
    const middle = keys.length >>> 1;
    const right = leaf(keys.slice(middle), values.slice(middle));
    return [leaf(keys.slice(0, middle), values.slice(0, middle)), right.keys[0]!, right];
  }
  const middle = children.length >>> 1;
  const left = branch(keys.slice(0, middle - 1), children.slice(0, middle));
  return [left, keys[middle - 1]!, branch(keys.slice(middle), children.slice(middle))];
}

function merge<V>(left: Node<V>, separator: string, right: Node<V>): Node<V> {
  if (left.children === undefined || right.children === undefined) {
    // Neighbours are on one level, so both are leaves.
    return leaf([...left.keys, ...right.keys], [...left.values!, ...right.values!]);
  }
  return branch([...left.keys, separator, ...right.keys], [...left.children, ...right.children]);
}

/** Shares a number of items out evenly: the [from, to) of as few groups as the width allows. */
function spread(count: number): [from: number, to: number][] {
  const groups = Math.ceil(count / MAX_WIDTH);
  const start = (group: number) => Math.floor(group * count / groups);
  return Array.from({ length: groups }, (_, group) => [start(group), start(group + 1)]);
}
