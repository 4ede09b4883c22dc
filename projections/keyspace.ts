/**
 * The projection that every log has: the current value of every key of every thread.
 *
 * It is immutable: each event makes a new root that shares all but a path with the last one, so a snapshot is a root
 * that somebody kept. It is a cache: what it does not hold is one seek away in the log, at any position, so it may
 * forget anything at any time, and opening a log fills nothing.
 *
 * @module
 */

import type { Backend, StoredEvent, ThreadRecord } from "../log/backend.ts";
import type { ThreadPath } from "../log/ids.ts";
import type { Position, Version } from "../log/position.ts";
import type { Records } from "../log/records.ts";
import type { StoredValue } from "../log/value.ts";
import { OrderedMap } from "./ordered_map.ts";

/** What is known of one thread. Immutable, but for `usage`. */
interface ThreadState {
  /** Its newest event; undefined if only values have been read. */
  readonly head: ThreadHead | undefined;
  /** Its newest entry; undefined if that is not known. */
  readonly newest: Newest | undefined;
  /** Current values by key; null for a key that is known not to be there. */
  readonly entries: OrderedMap<StoredValue | null>;
  /** Whether `entries` holds every key that is there. */
  readonly complete: boolean;
  /** Bytes of memory that the entries take, about. */
  readonly size: number;
  /** When it was last used: shared by all states of the thread. */
  readonly usage: { tick: number };
}

interface ThreadHead {
  readonly version: Version;
  readonly position: Position;
}

/** A thread's newest entry: its position (0 if there is none), and its key, if that is known. */
interface Newest {
  readonly position: Position;
  readonly key: string | undefined;
}

/** What is there, or a promise of what must be fetched. */
export type MaybePromise<T> = T | Promise<T>;

/** All threads at one position. Holding it keeps it. */
export interface KeyspaceRoot {
  readonly position: Position;
  readonly threads: OrderedMap<ThreadState>;
  /** How often threads had been forgotten: since then one that is unknown may have grown. */
  readonly forgotten: number;
}

const NO_ENTRIES: OrderedMap<StoredValue | null> = OrderedMap.empty();
const UNKNOWN: Newest = { position: -1, key: undefined };
/** Bytes of memory that a thread takes beside its entries, about. */
const THREAD_SIZE = 512;

/** The current state, kept up to date event by event, within a budget of memory. */
export class Keyspace {
  readonly #backend: Backend;
  readonly #records: Records;
  readonly #budget: number;
  #root: KeyspaceRoot;
  #size = 0;
  #clock = 0;

  constructor(backend: Backend, records: Records, budgetBytes: number, position: Position) {
    this.#backend = backend;
    this.#records = records;
    this.#budget = budgetBytes;
    this.#root = { position, threads: OrderedMap.empty(), forgotten: 0 };
  }

  /** The state as of the last event that was applied. */
  get root(): KeyspaceRoot {
    return this.#root;
  }

  /** Bytes of memory in use, about. */
  get size(): number {
    return this.#size;
  }

  /** Folds in the events that follow. */
  apply(events: readonly StoredEvent[]): void {
    let { threads } = this.#root;
    for (const event of events) {
      const before = threads.get(event.path);
      const after = this.#evolve(before, event, threads);
      this.#size += sizeOf(after) - (before === undefined ? 0 : sizeOf(before));
      threads = threads.set(event.path, after);
    }
    this.#root = { ...this.#root, position: events.at(-1)!.position, threads };
    if (this.#size > this.#budget) this.#evict();
  }

  /** Forgets everything: the events up to a position were too many to fold in. */
  reset(position: Position): void {
    this.#root = { position, threads: OrderedMap.empty(), forgotten: this.#root.forgotten + 1 };
    this.#size = 0;
  }

  /** A key's value at a root; undefined where there is none. A promise of it only where it is not in memory. */
  value(root: KeyspaceRoot, path: ThreadPath, key: string): MaybePromise<StoredValue | undefined> {
    const state = this.#use(root, path);
    const known = state?.entries.get(key);
    if (known !== undefined) return known ?? undefined;
    return state?.complete ? undefined : this.#fetch(root, path, state, key);
  }

  async #fetch(
    root: KeyspaceRoot,
    path: ThreadPath,
    state: ThreadState | undefined,
    key: string,
  ): Promise<StoredValue | undefined> {
    const chain = await this.#backend.entry(path, key, { position: root.position });
    const value = chain.length === 0 ? null : this.#records.value(chain);
    if (this.#isCurrent(root, path, state)) this.#remember(path, state, key, value);
    return value ?? undefined;
  }

  /** The end of a thread at a root. */
  async head(root: KeyspaceRoot, path: ThreadPath): Promise<{ version: Version; position: Position }> {
    const head = this.#use(root, path)?.head ?? await this.#record(root, path);
    return head === undefined ? { version: 0, position: 0 } : { version: head.version, position: head.position };
  }

  /** The newest entry of a thread at a root. A promise of it only where it is not in memory. */
  latest(root: KeyspaceRoot, path: ThreadPath): MaybePromise<StoredValue | undefined> {
    const state = this.#use(root, path);
    const { position, key } = state?.newest ?? UNKNOWN;
    if (position === 0) return undefined;
    const known = key === undefined ? undefined : state!.entries.get(key);
    return known?.event.position === position ? known : this.#fetchLatest(root, path, state);
  }

  async #fetchLatest(
    root: KeyspaceRoot,
    path: ThreadPath,
    state: ThreadState | undefined,
  ): Promise<StoredValue | undefined> {
    const chain = await this.#backend.latest(path, { position: root.position });
    const value = chain.length === 0 ? undefined : this.#records.value(chain);
    // (A damaged event may lack its key.)
    if (value?.event.key !== undefined && this.#isCurrent(root, path, state)) {
      const { position, key } = value.event;
      this.#remember(path, { ...(state ?? this.#unknown()), newest: { position, key } }, key, value, state);
    }
    return value;
  }

  /** The entries of a thread in memory, if all of them are. */
  complete(root: KeyspaceRoot, path: ThreadPath): OrderedMap<StoredValue | null> | undefined {
    const state = this.#use(root, path);
    return state?.complete ? state.entries : undefined;
  }

  #use(root: KeyspaceRoot, path: ThreadPath): ThreadState | undefined {
    const state = root.threads.get(path);
    if (state !== undefined) state.usage.tick = ++this.#clock;
    return state;
  }

  /** Whether nothing has happened to a thread since a root: then what was read at the root is current still. */
  #isCurrent(root: KeyspaceRoot, path: ThreadPath, state: ThreadState | undefined): boolean {
    if (this.#root.threads.get(path) !== state) return false;
    return state !== undefined || root.forgotten === this.#root.forgotten;
  }

  async #record(root: KeyspaceRoot, path: ThreadPath): Promise<ThreadRecord | undefined> {
    const state = root.threads.get(path);
    const record = await this.#backend.thread(path, { position: root.position });
    if (!this.#isCurrent(root, path, state)) return record;
    if (record === undefined) {
      const head = { version: 0, position: 0 };
      this.#replace(path, state, { ...this.#unknown(), head, newest: { position: 0, key: undefined }, complete: true });
    } else {
      const { version, position, latest } = record;
      const key = state?.newest?.position === latest ? state.newest.key : undefined;
      const newest = { position: latest, key };
      this.#replace(path, state, { ...(state ?? this.#unknown()), head: { version, position }, newest });
    }
    return record;
  }

  /** Adds a value to what is known of a thread; `before` is what is to be replaced by that. */
  #remember(
    path: ThreadPath,
    state: ThreadState | undefined,
    key: string,
    value: StoredValue | null,
    before: ThreadState | undefined = state,
  ): void {
    const { entries, size, ...rest } = state ?? this.#unknown();
    const known = entries.get(key);
    this.#replace(path, before, {
      ...rest,
      entries: entries.set(key, value),
      size: size + entrySize(key, value) - (known === undefined ? 0 : entrySize(key, known)),
    });
    if (this.#size > this.#budget) this.#evict();
  }

  #replace(path: ThreadPath, before: ThreadState | undefined, after: ThreadState): void {
    this.#size += sizeOf(after) - (before === undefined ? 0 : sizeOf(before));
    this.#root = { ...this.#root, threads: this.#root.threads.set(path, after) };
  }

  #unknown(): ThreadState {
    return {
      head: undefined,
      newest: undefined,
      entries: NO_ENTRIES,
      complete: false,
      size: 0,
      usage: { tick: ++this.#clock },
    };
  }

  #evolve(state: ThreadState | undefined, event: StoredEvent, threads: OrderedMap<ThreadState>): ThreadState {
    // At a thread's first event all of it is known, even if somebody has looked for it before.
    const begun = event.version === 1 ? { ...this.#unknown(), complete: true } : state ?? this.#unknown();
    const { entries, size, complete, usage } = begun;
    usage.tick = ++this.#clock;
    const key = event.latest === event.position
      ? event.key
      : event.latest === state?.newest?.position
      ? state.newest.key
      : undefined;
    const newest = { position: event.latest, key };
    const head = { version: event.version, position: event.position };
    switch (event.type) {
      case "set":
      case "patch":
      case "delete": {
        const key = event.key!;
        const before = entries.get(key);
        const after = event.type === "delete" ? null : this.#next(event, before ?? undefined);
        const kept = size - (before === undefined ? 0 : entrySize(key, before));
        // A patch on a value that is not in memory: the next read fetches both.
        if (after === undefined) {
          return { head, newest, entries: entries.delete(key), complete: false, size: kept, usage };
        }
        return { head, newest, entries: entries.set(key, after), complete, size: kept + entrySize(key, after), usage };
      }
      case "fork":
        return { ...this.#inherited(event, threads), head, newest, usage };
      case "restore":
        return { head, newest, entries: NO_ENTRIES, complete: false, size: 0, usage };
      case "erase":
        return { head, newest, entries: NO_ENTRIES, complete: true, size: 0, usage };
      default:
        return { head, newest, entries, complete, size, usage };
    }
  }

  /** The value after an event; undefined where it can't be told: then the next read says why. */
  #next(event: StoredEvent, before: StoredValue | undefined): StoredValue | undefined {
    try {
      return this.#records.next(event, before);
    } catch {
      return undefined;
    }
  }

  /** A fork of a thread's head begins with what is known of the parent. */
  #inherited(fork: StoredEvent, threads: OrderedMap<ThreadState>): Pick<ThreadState, "entries" | "complete" | "size"> {
    const { parent } = this.#records.event(fork).value as { parent: string | readonly string[] };
    const path = this.#records.pathOf(parent);
    const state = threads.get(path);
    if (state?.head === undefined || state.head.version !== fork.version - 1) {
      return { entries: NO_ENTRIES, complete: false, size: 0 };
    }
    return { entries: state.entries, complete: state.complete, size: state.size };
  }

  /** Forgets the threads that were used longest ago. */
  #evict(): void {
    const byAge = [...this.#root.threads.entries()].sort(([, a], [, b]) => a.usage.tick - b.usage.tick);
    let { threads } = this.#root;
    const goal = this.#budget * 0.75;
    for (const [path, state] of byAge) {
      if (this.#size <= goal) break;
      threads = threads.delete(path);
      this.#size -= sizeOf(state);
    }
    this.#root = { ...this.#root, threads, forgotten: this.#root.forgotten + 1 };
  }
}

function sizeOf(state: ThreadState): number {
  return THREAD_SIZE + state.size;
}

function entrySize(key: string, value: StoredValue | null): number {
  return 64 + 2 * key.length + (value?.size ?? 0);
}
