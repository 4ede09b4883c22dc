/**
 * A batch of a store's operations: done in order, each seeing the ones before it, and written together or not at all.
 *
 * @module
 */

import type { Item, SearchItem } from "@langchain/langgraph-checkpoint";
import { compareNames } from "../../log/ids.ts";
import type { Log } from "../../log/log.ts";
import { type Embedder, toUnit, type Unit } from "./embedder.ts";
import { isExpired, type ItemsState, peek, type StoredItem, toItem, valueOf } from "./store_items.ts";
import { commonPrefix } from "./store_namespaces.ts";
import type { Checked } from "./store_operations.ts";
import { Best, encodeVector, scoreOf, type VectorIndex, type VectorsState } from "./vectors.ts";

/** What a batch needs of its store. */
export interface StoreParts {
  readonly log: Log;
  readonly items: (namespace: readonly string[]) => string[];
  readonly vectors: (namespace: readonly string[]) => string[];
  readonly index: { readonly embedder: Embedder; readonly vectors: VectorIndex } | undefined;
  readonly now: () => number;
  readonly defaultTtl: number | undefined;
  readonly refreshOnRead: boolean;
}

type Put = Extract<Checked, { kind: "put" }>;
type Search = Extract<Checked, { kind: "search" }>;
type ListNamespaces = Extract<Checked, { kind: "namespaces" }>;

/** An item that the batch has put, or null where it has deleted one. */
interface Pending {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly item: StoredItem | null;
  readonly existed: boolean;
  readonly vectors: readonly Unit[];
}

/** The texts of a batch, embedded: for each put its vectors, for each query its own. */
export interface Embedded {
  readonly puts: ReadonlyMap<Put, readonly Unit[]>;
  readonly queries: ReadonlyMap<string, Unit>;
}

/** What an operation found, made into new objects each time. */
export type Result = () => Answer | Promise<Answer>;

type Answer = Item | SearchItem[] | string[][] | null;

/** One batch at work. */
export class StoreBatch {
  readonly #parts: StoreParts;
  readonly #embedded: Embedded;
  readonly #pending = new Map<string, Map<string, Pending>>();
  readonly #read: { readonly namespace: readonly string[]; readonly key: string; readonly item: StoredItem }[] = [];
  readonly #now: number;

  constructor(parts: StoreParts, embedded: Embedded) {
    this.#parts = parts;
    this.#embedded = embedded;
    this.#now = parts.now();
  }

  /** Does one operation. */
  async run(operation: Checked): Promise<Result> {
    switch (operation.kind) {
      case "get":
        return await this.#get(operation.namespace, operation.key);
      case "put":
        await this.#put(operation);
        return () => null;
      case "search":
        return await this.#search(operation);
      case "namespaces":
        return await this.#namespaces(operation);
    }
  }

  /** Writes what the puts have left, in one append. */
  async commit(): Promise<void> {
    const { log, items, vectors } = this.#parts;
    const puts = [...this.#pending.values()].flatMap((keys) => [...keys.values()])
      .filter(({ item, existed }) => item !== null || existed);
    const touched = this.#touched();
    if (puts.length === 0 && touched.length === 0) return;
    await log.batch((batch) => {
      for (const { namespace, key, item, vectors: units } of puts) {
        const thread = batch.thread<ItemsState>(items(namespace));
        if (item === null) thread.delete(key);
        else thread.put(key, item);
        if (this.#parts.index === undefined) continue;
        const beside = batch.thread<VectorsState>(vectors(namespace));
        if (units.length > 0) beside.put(key, { vectors: units.map(encodeVector) });
        else if (item === null || units.length === 0) beside.delete(key);
      }
      for (const { namespace, key, expires } of touched) {
        batch.thread<ItemsState>(items(namespace)).update(key, (draft) => {
          // Put again by somebody else meanwhile: then its time is the new one's.
          if (draft.expires !== undefined && draft.expires < expires) (draft as { expires: number }).expires = expires;
        });
      }
    });
  }

  /** Items whose time to live begins anew, because they were read. */
  #touched(): { namespace: readonly string[]; key: string; expires: number }[] {
    if (!this.#parts.refreshOnRead) return [];
    const touched = new Map<string, { namespace: readonly string[]; key: string; expires: number }>();
    for (const { namespace, key, item } of this.#read) {
      if (item.ttl === undefined || this.#pending.get(nameOf(namespace))?.has(key)) continue;
      const expires = this.#now + item.ttl * 60_000;
      // Within a hundredth of its life nothing is written: a busy item is not an append a read.
      if (expires - (item.expires ?? 0) < item.ttl * 600) continue;
      touched.set(JSON.stringify([namespace, key]), { namespace, key, expires });
    }
    return [...touched.values()];
  }

  async #stored(namespace: readonly string[], key: string): Promise<StoredItem | undefined> {
    const pending = this.#pending.get(nameOf(namespace))?.get(key);
    const item = pending === undefined
      ? await this.#parts.log.thread<ItemsState>(this.#parts.items(namespace)).get(key) as StoredItem | undefined
      : pending.item ?? undefined;
    return item === undefined || isExpired(item, this.#now) ? undefined : item;
  }

  async #get(namespace: readonly string[], key: string): Promise<Result> {
    const item = await this.#stored(namespace, key);
    if (item === undefined) return () => null;
    this.#read.push({ namespace, key, item });
    return () => toItem(namespace, key, item);
  }

  async #put(operation: Put): Promise<void> {
    const { namespace, key, form, ttl = this.#parts.defaultTtl } = operation;
    const name = nameOf(namespace);
    const thread = this.#parts.log.thread<ItemsState>(this.#parts.items(namespace));
    const keys = this.#pending.get(name) ?? new Map<string, Pending>();
    const existed = keys.get(key)?.existed ?? await thread.get(key) !== undefined;
    const before = await this.#stored(namespace, key);
    const item: StoredItem | null = form === null ? null : {
      ...form,
      created: before?.created ?? this.#now,
      updated: this.#now,
      ...(ttl === undefined || ttl === null ? {} : { ttl, expires: this.#now + ttl * 60_000 }),
    };
    keys.set(key, { namespace, key, item, existed, vectors: this.#embedded.puts.get(operation) ?? [] });
    this.#pending.set(name, keys);
  }

  async #search(search: Search): Promise<Result> {
    const { offset, limit, query } = search;
    if (limit === 0) return () => [];
    const found = query === undefined || this.#parts.index === undefined
      ? await this.#page(search, () => true, offset, limit)
      : await this.#nearest(search, query);
    for (const { namespace, key, item } of found) this.#read.push({ namespace, key, item });
    return () =>
      Promise.all(found.map(async ({ namespace, key, item, score }): Promise<SearchItem> => {
        return Object.assign(await toItem(namespace, key, item), { score }) as SearchItem;
      }));
  }

  /** Items in the order of namespaces and keys. Reading stops at the last one that is asked for. */
  async #page(search: Search, admits: (found: Found) => boolean, offset: number, limit: number): Promise<Found[]> {
    const page: Found[] = [];
    let skip = offset;
    for await (const namespace of this.#under(search.prefix)) {
      for await (const found of this.#items(namespace)) {
        if (!await this.#passes(search, found.item) || !admits(found)) continue;
        if (skip-- > 0) continue;
        page.push(found);
        if (page.length >= limit) return page;
      }
    }
    return page;
  }

  async #passes({ passes }: Search, item: StoredItem): Promise<boolean> {
    if (isExpired(item, this.#now)) return false;
    return passes === undefined || passes("tree" in item ? await valueOf(item) : peek(item));
  }

  /** The items whose vectors are nearest to the query's; then, if there are too few, those that have none. */
  async #nearest(search: Search, query: string): Promise<Found[]> {
    const { offset, limit } = search;
    const vector = this.#embedded.queries.get(query) ?? toUnit([]);
    const best = new Best<Nearest>(offset + limit, compareFound);
    const indexed = new Set<string>();
    for await (const namespace of this.#under(search.prefix)) {
      for (const [key, units] of await this.#vectorsOf(namespace)) {
        indexed.add(JSON.stringify([namespace, key]));
        const score = scoreOf(vector, units);
        if (!best.admits(score)) continue;
        const item = await this.#stored(namespace, key);
        if (item !== undefined && await this.#passes(search, item)) best.add({ namespace, key, item, score });
      }
    }
    const found: Found[] = best.sorted().slice(offset);
    if (found.length >= limit) return found;
    const rest = await this.#page(
      search,
      ({ namespace, key }) => !indexed.has(JSON.stringify([namespace, key])),
      Math.max(0, offset - best.count),
      limit - found.length,
    );
    return [...found, ...rest];
  }

  async #vectorsOf(namespace: readonly string[]): Promise<ReadonlyMap<string, readonly Unit[]>> {
    const { index, vectors } = this.#parts;
    const stored = await index!.vectors.of(vectors(namespace));
    const pending = this.#pending.get(nameOf(namespace));
    if (pending === undefined) return stored;
    const all = new Map(stored);
    for (const [key, { vectors }] of pending) {
      if (vectors.length > 0) all.set(key, vectors);
      else all.delete(key);
    }
    return all;
  }

  /** The items of a namespace, in the order of their keys, expired ones included. */
  async *#items(namespace: readonly string[]): AsyncGenerator<Found> {
    const thread = this.#parts.log.thread<ItemsState>(this.#parts.items(namespace));
    const pending = this.#pending.get(nameOf(namespace));
    const added = [...pending?.values() ?? []].filter(({ item }) => item !== null)
      .sort((a, b) => compareNames(a.key, b.key));
    for await (const { key, value } of thread.entries()) {
      while (added.length > 0 && compareNames(added[0]!.key, key) < 0) {
        const { key, item } = added.shift()!;
        yield { namespace, key, item: item! };
      }
      if (pending?.has(key) !== true) yield { namespace, key, item: value as StoredItem };
    }
    for (const { key, item } of added) yield { namespace, key, item: item! };
  }

  /** The namespaces below a path, itself included, in order. */
  async *#under(prefix: readonly string[]): AsyncGenerator<string[]> {
    const root = this.#parts.items([]);
    const added = [...this.#pending.values()].map((keys) => [...keys.values().next().value!.namespace])
      .filter((namespace) => prefix.every((label, i) => namespace[i] === label))
      .sort(comparePaths);
    for await (const { thread } of this.#parts.log.threads({ prefix: [...root, ...prefix] })) {
      const namespace = typeof thread === "string" ? [] : thread.slice(root.length);
      while (added.length > 0 && comparePaths(added[0]!, namespace) <= 0) {
        const next = added.shift()!;
        if (comparePaths(next, namespace) < 0) yield next;
      }
      yield namespace;
    }
    yield* added;
  }

  async #namespaces(operation: ListNamespaces): Promise<Result> {
    const { conditions, matches, maxDepth, offset, limit } = operation;
    const page: string[][] = [];
    if (limit === 0) return () => [];
    let skip = offset;
    let last: string | undefined;
    for await (const whole of this.#under(commonPrefix(conditions))) {
      if (!matches(whole)) continue;
      const namespace = maxDepth === undefined ? whole : whole.slice(0, maxDepth);
      const name = nameOf(namespace);
      // Those that are cut to the same stand together.
      if (name === last || !await this.#isInhabited(whole)) continue;
      last = name;
      if (skip-- > 0) continue;
      page.push(namespace);
      if (page.length >= limit) break;
    }
    return () => page.map((namespace) => [...namespace]);
  }

  async #isInhabited(namespace: readonly string[]): Promise<boolean> {
    for await (const { item } of this.#items(namespace)) if (!isExpired(item, this.#now)) return true;
    return false;
  }
}

interface Found {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly item: StoredItem;
  readonly score?: number;
}

type Nearest = Found & { readonly score: number };

function compareFound(a: Found, b: Found): number {
  return comparePaths(a.namespace, b.namespace) || compareNames(a.key, b.key);
}

function nameOf(namespace: readonly string[]): string {
  return JSON.stringify(namespace);
}

function comparePaths(a: readonly string[], b: readonly string[]): number {
  for (let i = 0; i < a.length && i < b.length; i++) {
    const order = compareNames(a[i]!, b[i]!);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}
