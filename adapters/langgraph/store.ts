/**
 * LangGraph's long-term memory over a log.
 *
 * @module
 */

import { inspect } from "node:util";
import {
  BaseStore,
  type IndexConfig,
  type Item,
  type Operation,
  type OperationResults,
  type SearchItem,
} from "@langchain/langgraph-checkpoint";
import { takeOptions } from "../../log/arguments.ts";
import { invalid } from "../../log/errors.ts";
import type { Log } from "../../log/log.ts";
import { openLog, type OpenOptions } from "../../log/open.ts";
import { Embedder, type Unit } from "./embedder.ts";
import { type Embedded, type Result, StoreBatch, type StoreParts } from "./store_batch.ts";
import { valueOf } from "./store_items.ts";
import { checkAppNamespace, type Checked, checkOperation, checkTtl } from "./store_operations.ts";
import { sweep } from "./store_sweep.ts";
import { textsAt } from "./text_paths.ts";
import { VectorIndex } from "./vectors.ts";

/** How long items live. */
export interface TtlOptions {
  /** Minutes, for items that don't say; without it they live for ever. */
  readonly defaultTtl?: number;
  /** Whether reading an item begins its time anew. Default true. */
  readonly refreshOnRead?: boolean;
  /** How often `start` sweeps, in minutes. Without it nothing is swept unless `sweep` is called. */
  readonly sweepIntervalMinutes?: number;
}

/** How a store is set up. */
export interface StoreOptions {
  /** Labels that all its threads begin with. Stores with different prefixes share a log without seeing each other. */
  readonly prefix?: readonly string[];
  /** What to embed, and with what, for search by meaning. */
  readonly index?: IndexConfig;
  /** How long items live. */
  readonly ttl?: TtlOptions;
  /** The clock, in milliseconds since 1970. Default `Date.now`. */
  readonly now?: () => number;
}

/** An operation that waits for the end of the tick. */
interface Waiting {
  readonly operation: Checked;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Keeps the long-term memory of LangGraph agents in a log: a namespace is a thread, an item one of its keys.
 *
 * @example
 * ```ts
 * import { ThreadlogStore } from "threadlog/langgraph";
 *
 * await using store = await ThreadlogStore.open(":memory:"); // or "agent.db"
 * await store.put(["users", "42"], "tone", { text: "formal" });
 * const found = await store.search(["users", "42"], { filter: { text: "formal" } });
 * ```
 */
export class ThreadlogStore extends BaseStore implements AsyncDisposable {
  /** The log that it writes to. */
  readonly log: Log;
  /** What it embeds, if it does. */
  readonly indexConfig: IndexConfig | undefined;
  readonly #parts: StoreParts;
  readonly #ttl: TtlOptions;
  #waiting: Waiting[] = [];
  #writing: Promise<unknown> = Promise.resolve();
  #sweeper: ReturnType<typeof setInterval> | undefined;
  #owned = false;

  /** A store over an open log, which stays the caller's to close. */
  constructor(log: Log, options: StoreOptions = {}) {
    super();
    const { prefix = [], index, ttl = {}, now = Date.now } = takeOptions(options, ["prefix", "index", "ttl", "now"]);
    checkTtl(ttl.defaultTtl, "ttl.defaultTtl");
    checkTtl(ttl.sweepIntervalMinutes, "ttl.sweepIntervalMinutes");
    if (index !== undefined && !(Number.isSafeInteger(index.dims) && index.dims > 0)) {
      throw invalid("An index needs the number of its dimensions", "index.dims", "As in { dims: 1536, embeddings }.");
    }
    this.log = log;
    this.indexConfig = index;
    this.#ttl = ttl;
    this.#parts = {
      log,
      now,
      items: (namespace) => [...prefix, "store", ...namespace],
      vectors: (namespace) => [...prefix, "vectors", ...namespace],
      index: index && { embedder: new Embedder(index.embeddings, index.dims), vectors: new VectorIndex(log) },
      defaultTtl: ttl.defaultTtl,
      refreshOnRead: ttl.refreshOnRead !== false,
    };
  }

  /** Opens a log and a store over it; closing the store closes the log. */
  static async open(path: string, options: StoreOptions & OpenOptions = {}): Promise<ThreadlogStore> {
    const { prefix, index, ttl, ...opening } = options;
    const { now } = options;
    const log = await openLog(path, opening);
    try {
      const store = new ThreadlogStore(log, { prefix, index, ttl, now });
      store.#owned = true;
      return store;
    } catch (error) {
      await log.close();
      throw error;
    }
  }

  /** Whether the sweeper runs. */
  get isRunning(): boolean {
    return this.#sweeper !== undefined;
  }

  /** Starts sweeping, if an interval was given. Reads see no expired item either way. */
  override start(): void {
    const { sweepIntervalMinutes } = this.#ttl;
    if (sweepIntervalMinutes === undefined || this.#sweeper !== undefined) return;
    this.#sweeper = setInterval(() => void this.sweep().catch(() => {}), sweepIntervalMinutes * 60_000);
    // A sweeper keeps no process alive.
    (this.#sweeper as { unref?: () => void }).unref?.();
  }

  /** Stops sweeping. */
  override stop(): void {
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }

  /** Stops, and closes the log, if `open` opened it. */
  async close(): Promise<void> {
    this.stop();
    if (this.#owned) await this.log.close();
  }

  /** The same, at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Does operations in order, each seeing the ones before it. They are checked before any is done, and what they write
   * is written together or not at all.
   */
  override async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const checked = operations.map(checkOperation);
    return await this.#run(checked) as OperationResults<Op>;
  }

  /** An item; null if there is none. */
  override async get(namespace: string[], key: string): Promise<Item | null> {
    return await this.#atEndOfTick<Item | null>({ namespace, key });
  }

  /** Items below a namespace, that pass a filter; nearest to a query first, if there is one. */
  override async search(
    namespacePrefix: string[],
    options: { filter?: Record<string, unknown>; limit?: number; offset?: number; query?: string } = {},
  ): Promise<SearchItem[]> {
    return await this.#atEndOfTick<SearchItem[]>({ namespacePrefix, ...options });
  }

  /** Keeps an item. `index` says what to embed of it; `ttl`, in minutes, how long it lives. */
  override async put(
    namespace: string[],
    key: string,
    value: Record<string, unknown>,
    index?: false | string[],
    options: { readonly ttl?: number | null } = {},
  ): Promise<void> {
    checkAppNamespace(namespace);
    await this.#atEndOfTick({ namespace, key, value, index, ...options });
  }

  /** Deletes an item. */
  override async delete(namespace: string[], key: string): Promise<void> {
    await this.#atEndOfTick({ namespace, key, value: null });
  }

  /** Namespaces that hold items, in order. */
  override async listNamespaces(
    options: { prefix?: string[]; suffix?: string[]; maxDepth?: number; limit?: number; offset?: number } = {},
  ): Promise<string[][]> {
    const { prefix, suffix, maxDepth, limit = 100, offset = 0 } = options;
    const matchConditions = [
      ...prefix === undefined ? [] : [{ matchType: "prefix" as const, path: prefix }],
      ...suffix === undefined ? [] : [{ matchType: "suffix" as const, path: suffix }],
    ];
    return await this.#atEndOfTick<string[][]>({ matchConditions, maxDepth, limit, offset });
  }

  /** Deletes items whose time is over. Resolves with how many went. */
  async sweep(): Promise<number> {
    return await sweep(this.#parts);
  }

  /** Runs an operation together with all others of this tick, in the order of the calls. */
  #atEndOfTick<Answer>(operation: Operation): Promise<Answer> {
    const checked = checkOperation(operation);
    return new Promise<Answer>((resolve, reject) => {
      this.#waiting.push({ operation: checked, resolve: resolve as (result: unknown) => void, reject });
      if (this.#waiting.length > 1) return;
      queueMicrotask(() => {
        const waiting = this.#waiting;
        this.#waiting = [];
        this.#run(waiting.map(({ operation }) => operation)).then(
          (results) => waiting.forEach(({ resolve }, i) => resolve(results[i])),
          (error) => waiting.forEach(({ reject }) => reject(error)),
        );
      });
    });
  }

  async #run(operations: readonly Checked[]): Promise<unknown[]> {
    const embedded = this.#embed(operations);
    // What an earlier batch writes is there for a later one to read.
    const run = Promise.all([embedded, this.#writing]).then(([ready]) => this.#do(operations, ready));
    this.#writing = run.catch(() => {});
    return await run;
  }

  async #do(operations: readonly Checked[], embedded: Embedded): Promise<unknown[]> {
    const batch = new StoreBatch(this.#parts, embedded);
    const results: unknown[] = [];
    // Equal reads with no write in between are one; each caller gets objects of its own.
    const reads = new Map<string, Result>();
    for (const operation of operations) {
      if (operation.kind === "put") reads.clear();
      const name = nameOf(operation);
      const result = reads.get(name) ?? await batch.run(operation);
      if (operation.kind !== "put") reads.set(name, result);
      results.push(await result());
    }
    await batch.commit();
    return results;
  }

  async #embed(operations: readonly Checked[]): Promise<Embedded> {
    const puts = new Map<Extract<Checked, { kind: "put" }>, readonly Unit[]>();
    const queries = new Map<string, Unit>();
    const embedder = this.#parts.index?.embedder;
    if (embedder === undefined) return { puts, queries };
    const wanted: { put: Extract<Checked, { kind: "put" }>; texts: string[] }[] = [];
    for (const operation of operations) {
      if (operation.kind === "search" && operation.query !== undefined) {
        queries.set(operation.query, await embedder.query(operation.query));
      }
      if (operation.kind !== "put" || operation.form === null || operation.index === false) continue;
      const value = await valueOf(operation.form);
      const paths = operation.index ?? this.indexConfig?.fields ?? ["$"];
      wanted.push({ put: operation, texts: paths.flatMap((path) => textsAt(value, path)) });
    }
    const vectors = await embedder.documents(wanted.flatMap(({ texts }) => texts));
    for (const { put, texts } of wanted) puts.set(put, vectors.splice(0, texts.length));
    return { puts, queries };
  }
}

/** A name that equal operations share. */
function nameOf(operation: Checked): string {
  switch (operation.kind) {
    case "put":
      return "";
    case "search": {
      const { filter, passes: _, ...rest } = operation;
      return `${JSON.stringify(rest)}${filter === undefined ? "" : showFilter(filter)}`;
    }
    default:
      return JSON.stringify(operation);
  }
}

/** A filter with the types of what it compares to: JSON would take a Date for its text. */
function showFilter(filter: object): string {
  return inspect(filter, { depth: Infinity, maxArrayLength: Infinity, maxStringLength: Infinity });
}
