/**
 * Reading state: of a thread now, or of a thread or the log as it was.
 *
 * @module
 */

import { parseFlag, takeOptions } from "./arguments.ts";
import type { Chain, ReadPoint } from "./backend.ts";
import type { Core, Moment } from "./core.ts";
import type { Immutable } from "./event.ts";
import { defaultEventId, parseKey, parsePrefix, parseThreadId, type ThreadId, threadIdOf } from "./ids.ts";
import type { ThreadPath } from "./ids.ts";
import type { Head, Point, Position, Version } from "./position.ts";
import { parseLimit } from "./subscription.ts";
import type { StoredValue } from "./value.ts";
import type { KeyspaceRoot, MaybePromise } from "../projections/keyspace.ts";
import type { OrderedMap } from "../projections/ordered_map.ts";

/** The keys of a thread and the types of their values. Without one, any key holds anything. */
// deno-lint-ignore no-explicit-any
export type AnyState = Record<string, any>;

/** A key of a state. */
export type KeyOf<State> = keyof State & string;

/** A key's value, and the event that left it. */
export interface Entry<Key extends string = string, Value = unknown> {
  /** The key. */
  readonly key: Key;
  /** Its value: frozen, or the reader's own copy. */
  readonly value: Immutable<Value>;
  /** The version of the event that left the value. */
  readonly version: Version;
  /** The position of that event. */
  readonly position: Position;
  /** Its time, in milliseconds since 1970. */
  readonly time: number;
  /** Its id. */
  readonly id: string;
  /** What the app attached to it. */
  readonly meta: unknown;
}

/** An entry of a thread's state. */
export type EntryOf<State> = { [Key in KeyOf<State>]: Entry<Key, State[Key]> }[KeyOf<State>];

/** Which entries to list. They come in code point order of their keys. */
export interface ListOptions {
  /** Only keys that start with this. */
  readonly prefix?: string;
  /** Start behind this key (before it, if reverse). */
  readonly after?: string;
  /** At most this many. */
  readonly limit?: number;
  /** From the last key to the first. */
  readonly reverse?: boolean;
}

/** Which threads to list. They come in the order of their ids: label by label, by code point. */
export interface ThreadsOptions {
  /** Only threads below this path (whole labels), itself included. */
  readonly prefix?: ThreadId | readonly [];
  /** Start behind this thread. */
  readonly after?: ThreadId;
  /** At most this many. */
  readonly limit?: number;
}

/** A thread, as a listing shows it. */
export interface ThreadInfo {
  /** Its id. */
  readonly thread: ThreadId;
  /** Its last version. */
  readonly version: Version;
  /** The position of its last event. */
  readonly position: Position;
  /** The time of its last event, in milliseconds since 1970. */
  readonly time: number;
  /** Whose history it shares, and up to which version, if it is a fork. */
  readonly parent: { readonly thread: ThreadId; readonly version: Version } | undefined;
}

/** Entries or threads fetched at a time. */
const PAGE = 128;

/** A thread's state at one point; reads only. */
export class ThreadView<State = AnyState> {
  readonly #core: Core;
  readonly #path: ThreadPath;
  readonly #moment: () => MaybePromise<Moment>;

  /** Views are made by `thread.at` and `log.at`. */
  constructor(core: Core, path: ThreadPath, moment: () => MaybePromise<Moment>) {
    this.#core = core;
    this.#path = path;
    this.#moment = moment;
  }

  /** The value of a key; undefined where there is none. */
  async get<Key extends KeyOf<State>>(key: Key): Promise<Immutable<State[Key]> | undefined> {
    return (await this.#value(parseKey(key)))?.read() as Immutable<State[Key]> | undefined;
  }

  /** A key's value with the event that left it; undefined where there is none. */
  async entry<Key extends KeyOf<State>>(key: Key): Promise<Entry<Key, State[Key]> | undefined> {
    const value = await this.#value(parseKey(key));
    return value && entryOf(this.#core, value) as unknown as Entry<Key, State[Key]>;
  }

  /** The newest entry: the key that was set or changed last, of those that are there. */
  async latest(): Promise<EntryOf<State> | undefined> {
    const { backend, keyspace, records } = this.#core;
    const value = await this.#core.readAt(this.#moment, (moment): MaybePromise<StoredValue | undefined> => {
      if ("root" in moment) return keyspace.latest(moment.root, this.#path);
      return backend.latest(this.#path, moment.at)
        .then((chain) => chain.length === 0 ? undefined : records.value(chain));
    });
    return value && entryOf<State>(this.#core, value);
  }

  /** The end of the thread at this point. */
  async head(): Promise<Head> {
    return await this.#core.readAt(this.#moment, async (moment) => {
      if ("root" in moment) return await this.#core.keyspace.head(moment.root, this.#path);
      const record = await this.#core.backend.thread(this.#path, moment.at);
      return { version: record?.version ?? 0, position: record?.position ?? 0 };
    });
  }

  /** The entries, in order of their keys. */
  entries(options: ListOptions = {}): AsyncIterableIterator<EntryOf<State>> {
    return listEntries<State>(this.#core, this.#path, this.#moment, parseList(options));
  }

  /** The keys, in order. */
  async *keys(options: ListOptions = {}): AsyncIterableIterator<KeyOf<State>> {
    for await (const value of listValues(this.#core, this.#path, this.#moment, parseList(options))) {
      yield value.event.key as KeyOf<State>;
    }
  }

  #value(key: string): MaybePromise<StoredValue | undefined> {
    return this.#core.readAt(this.#moment, (moment) => readValue(this.#core, this.#path, key, moment));
  }
}

/** A key's value at a moment. */
export function readValue(
  core: Core,
  path: ThreadPath,
  key: string,
  moment: Moment,
): MaybePromise<StoredValue | undefined> {
  if ("root" in moment) return core.keyspace.value(moment.root, path, key);
  return core.backend.entry(path, key, moment.at)
    .then((chain) => chain.length === 0 ? undefined : core.records.value(chain));
}

/** Shows a value as an entry. */
export function entryOf<State>(core: Core, value: StoredValue): EntryOf<State> {
  const { key, version, position, time, id, meta } = value.event;
  return Object.freeze({
    key,
    value: value.read(),
    version,
    position,
    time,
    id: id ?? defaultEventId(position),
    meta: meta === undefined ? undefined : core.records.meta(value.event),
  }) as unknown as EntryOf<State>;
}

interface CheckedList {
  readonly prefix: string;
  readonly after: string | undefined;
  readonly limit: number;
  readonly reverse: boolean;
}

function parseList(options: ListOptions): CheckedList {
  const { prefix, after, limit, reverse } = takeOptions(options, ["prefix", "after", "limit", "reverse"]);
  return {
    prefix: prefix === undefined ? "" : parseKey(prefix, "prefix"),
    after: after === undefined ? undefined : parseKey(after, "after"),
    limit: parseLimit(limit),
    reverse: parseFlag(reverse, "reverse"),
  };
}

async function* listEntries<State>(
  core: Core,
  path: ThreadPath,
  at: () => MaybePromise<Moment>,
  list: CheckedList,
): AsyncIterableIterator<EntryOf<State>> {
  for await (const value of listValues(core, path, at, list)) yield entryOf<State>(core, value);
}

/** How a listing begins: with all entries, which are in memory, or with the first page of them. */
type Begin =
  | { readonly complete: OrderedMap<StoredValue | null> }
  | { readonly complete: undefined; readonly point: ReadPoint; readonly page: readonly Chain[] };

/** The values of a thread at a moment, in key order. The moment is fixed when the first is asked for. */
export async function* listValues(
  core: Core,
  path: ThreadPath,
  at: () => MaybePromise<Moment>,
  list: CheckedList,
): AsyncIterableIterator<StoredValue> {
  let left = list.limit;
  if (left === 0) return;
  const pageAt = (point: ReadPoint, after: string | undefined) =>
    core.backend.entries(path, point, { ...list, after, limit: Math.min(left, PAGE) });
  const begin = await core.readAt<Begin, Moment>(at, (moment) => {
    const complete = "root" in moment ? core.keyspace.complete(moment.root, path) : undefined;
    if (complete !== undefined) return { complete };
    const point = "root" in moment ? { position: moment.root.position } : moment.at;
    return pageAt(point, list.after).then(async (page) => {
      // Who asks for a thread that is not there often asks again: then nothing need be read.
      if (page.length === 0 && "root" in moment) await core.keyspace.head(moment.root, path);
      return { complete: undefined, point, page };
    });
  });
  if (begin.complete !== undefined) {
    for (const [, value] of begin.complete.entries(list)) {
      if (value === null) continue;
      yield value;
      if (--left === 0) return;
    }
    return;
  }
  for (let { page } = begin;;) {
    const isLast = page.length < Math.min(left, PAGE);
    for (const chain of page) yield core.records.value(chain);
    left -= page.length;
    if (isLast || left === 0) return;
    page = await pageAt(begin.point, page.at(-1)![0]!.key);
  }
}

/** The log as it was at one point; reads only. */
export class LogView {
  readonly #core: Core;
  readonly #root: (() => Moment) | undefined;
  readonly #point: Point | undefined;

  /** Views are made by `log.at`. */
  constructor(core: Core, at: Point | KeyspaceRoot) {
    this.#core = core;
    if ("kind" in at) {
      this.#point = at;
      return;
    }
    const moment = { root: at };
    this.#root = () => moment;
  }

  /** A thread, as it was then. */
  thread<State = AnyState>(id: ThreadId): ThreadView<State> {
    const path = parseThreadId(id);
    return new ThreadView<State>(
      this.#core,
      path,
      this.#root ?? (async () => ({ at: { position: await this.#core.resolve(this.#point!) } })),
    );
  }

  /** The threads that existed then. */
  threads(options: ThreadsOptions = {}): AsyncIterableIterator<ThreadInfo> {
    return listThreads(this.#core, options, async () => {
      const moment = this.#root?.();
      return moment !== undefined && "root" in moment ? moment.root.position : await this.#core.resolve(this.#point!);
    });
  }
}

/** Lists threads as they were at a position. */
export function listThreads(
  core: Core,
  options: ThreadsOptions,
  position: () => Promise<Position>,
): AsyncIterableIterator<ThreadInfo> {
  const given = takeOptions(options, ["prefix", "after", "limit"]);
  const prefix = parsePrefix(given.prefix);
  const after = given.after === undefined ? undefined : parseThreadId(given.after, "after");
  return pageThreads(core, prefix, after, parseLimit(given.limit), position);
}

async function* pageThreads(
  core: Core,
  prefix: ThreadPath,
  start: ThreadPath | undefined,
  limit: number,
  position: () => Promise<Position>,
): AsyncIterableIterator<ThreadInfo> {
  const at = await position();
  let after = start;
  for (let left = limit; left > 0;) {
    const size = Math.min(left, PAGE);
    const page = await core.backend.threads({ prefix, after, limit: size, at });
    for (const { path, version, position, time, parent } of page) {
      yield Object.freeze({
        thread: threadIdOf(path),
        version,
        position,
        time,
        parent: parent && Object.freeze({ thread: threadIdOf(parent.path), version: parent.version }),
      });
    }
    if (page.length < size) return;
    left -= page.length;
    after = page.at(-1)!.path;
  }
}

/**
 * The whole log as it was at one position: a reference, made in O(1), that stays as it is while writes go on. Reading a
 * value that is in memory does no I/O; holding the snapshot keeps those values in memory.
 *
 * @example
 * ```ts
 * import { openLog } from "threadlog";
 *
 * await using log = await openLog(":memory:");
 * await log.thread("a").put("n", 1);
 * const before = log.snapshot();
 * await log.thread("a").put("n", 2);
 * console.log(await before.thread("a").get("n")); // 1
 * ```
 */
export class Snapshot extends LogView {
  /** The position of the last event that it shows. */
  readonly position: Position;

  /** Snapshots are made by `log.snapshot`. */
  constructor(core: Core, root: KeyspaceRoot) {
    super(core, root);
    this.position = root.position;
  }
}
