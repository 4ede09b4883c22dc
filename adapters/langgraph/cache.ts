/**
 * LangGraph's cache of node results over a log.
 *
 * @module
 */

import { BaseCache } from "@langchain/langgraph-checkpoint";
import { takeOptions } from "../../log/arguments.ts";
import { invalid } from "../../log/errors.ts";
import type { Log } from "../../log/log.ts";
import { openLog, type OpenOptions } from "../../log/open.ts";
import { dump, load, type Serde, type Stored } from "./value_codec.ts";

/** A key of the cache: a namespace, and a key in it. */
export type CacheKey = [namespace: string[], key: string];

/** How a cache is set up. */
export interface CacheOptions {
  /** Labels that all its threads begin with. */
  readonly prefix?: readonly string[];
  /** Writes values in another way than LangGraph's own serializer does. */
  readonly serde?: Serde;
  /** The clock, in milliseconds since 1970. Default `Date.now`. */
  readonly now?: () => number;
}

interface Cached {
  readonly value: Stored;
  readonly expires?: number;
}

/**
 * Keeps results of nodes in a log, so that they outlive the process.
 *
 * @example
 * ```ts
 * import { ThreadlogCache } from "threadlog/langgraph";
 *
 * await using cache = await ThreadlogCache.open<number>(":memory:"); // or "cache.db"
 * await cache.set([{ key: [["node"], "input"], value: 42, ttl: 60 }]);
 * console.log(await cache.get([[["node"], "input"]])); // [{ key: [["node"], "input"], value: 42 }]
 * ```
 */
export class ThreadlogCache<Value = unknown> extends BaseCache<Value> implements AsyncDisposable {
  /** The log that it writes to. */
  readonly log: Log;
  readonly #root: readonly string[];
  readonly #now: () => number;
  #owned = false;

  /** A cache over an open log, which stays the caller's to close. */
  constructor(log: Log, options: CacheOptions = {}) {
    const { prefix = [], serde, now = Date.now } = takeOptions(options, ["prefix", "serde", "now"]);
    super(serde);
    this.log = log;
    this.#root = [...prefix, "cache"];
    this.#now = now;
  }

  /** Opens a log and a cache over it; closing the cache closes the log. */
  static async open<Value = unknown>(
    path: string,
    options: CacheOptions & OpenOptions = {},
  ): Promise<ThreadlogCache<Value>> {
    const { prefix, serde, ...opening } = options;
    const { now } = options;
    const cache = new ThreadlogCache<Value>(await openLog(path, opening), { prefix, serde, now });
    cache.#owned = true;
    return cache;
  }

  /** Closes the log, if `open` opened it. */
  async close(): Promise<void> {
    if (this.#owned) await this.log.close();
  }

  /** The same, at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The values that are there and whose time is not over; others are left out. */
  override async get(keys: CacheKey[]): Promise<{ key: CacheKey; value: Value }[]> {
    const now = this.#now();
    const found = await Promise.all(keys.map(async (key) => {
      const cached = await this.#thread(key[0]).get(checkKey(key)) as Cached | undefined;
      if (cached === undefined || (cached.expires !== undefined && cached.expires <= now)) return [];
      return [{ key, value: await load(this.serde, cached.value) as Value }];
    }));
    return found.flat();
  }

  /** Keeps values, together; `ttl` is in seconds. */
  override async set(pairs: { key: CacheKey; value: Value; ttl?: number }[]): Promise<void> {
    const now = this.#now();
    const entries = await Promise.all(pairs.map(async ({ key, value, ttl }) => {
      checkKey(key);
      const entry: Cached = { value: await dump(this.serde, value) };
      return { key, entry: ttl === undefined || ttl === null ? entry : { ...entry, expires: now + ttl * 1000 } };
    }));
    await this.log.batch((batch) => {
      for (const { key: [namespace, key], entry } of entries) {
        batch.thread<Record<string, Cached>>([...this.#root, ...namespace]).put(key, entry);
      }
    });
  }

  /** Erases namespaces, just these; all of them, if none is given. */
  override async clear(namespaces: string[][]): Promise<void> {
    if (namespaces.length === 0) await this.log.erase(this.#root, { scrub: false });
    for (const namespace of namespaces) await this.#thread(namespace).erase({ scrub: false });
  }

  #thread(namespace: readonly string[]) {
    return this.log.thread<Record<string, Cached>>([...this.#root, ...namespace]);
  }
}

function checkKey(key: CacheKey): string {
  if (Array.isArray(key) && Array.isArray(key[0]) && typeof key[1] === "string") return key[1];
  throw invalid("A key of the cache is a namespace and a string", "key", 'As in [["node"], "key"].');
}
