/**
 * A thread of a log, as apps use it.
 *
 * @module
 */

import { isThenable, parseFlag, takeOptions } from "./arguments.ts";
import type { EventInput, Expectation } from "./backend.ts";
import { type Change, diffThread, originAt, versionAt } from "./changes.ts";
import type { Core } from "./core.ts";
import { invalid, ThreadlogError } from "./errors.ts";
import {
  type AppEvent,
  type DeleteEvent,
  type EraseEvent,
  type Event,
  type ForkEvent,
  type Immutable,
  type PatchEvent,
  type RestoreEvent,
  type SetEvent,
} from "./event.ts";
import { bisect, blame } from "./history.ts";
import { parseEventId, parseKey, parseThreadId, showPath } from "./ids.ts";
import { type ThreadId, threadIdOf, type ThreadPath } from "./ids.ts";
import { END, parseThreadPoint, type Point, type ThreadPoint, type Version } from "./position.ts";
import type { Recipe } from "./recipe.ts";
import { parseLimit } from "./subscription.ts";
import { planSteps } from "./updates.ts";
import { type AnyState, type KeyOf, ThreadView } from "./view.ts";
import { appInput, deleteInput, forkInput, parseExpect, pendingUpdate, setInput } from "./writes.ts";
import { UPDATE_OPTIONS, type UpdateOptions, WRITE_OPTIONS, type WriteOptions } from "./writes.ts";

/** Where and how to read a thread's history. */
export interface ReplayOptions {
  /** The first event. Default: version 1. */
  readonly from?: ThreadPoint;
  /** The last event. Default: the head. */
  readonly to?: ThreadPoint;
  /** At most this many. */
  readonly limit?: number;
  /** From the last to the first. */
  readonly reverse?: boolean;
}

/** How to erase. */
export interface EraseOptions {
  /** Anything to keep beside the tombstone. */
  readonly meta?: unknown;
  /**
   * Also overwrites the copies that the engine may have left in unused parts of the file, which takes as long as writing
   * the file anew. Default true. With false, `log.compact()` does it later, once for any number of erasures.
   */
  readonly scrub?: boolean;
}

/** How to fork. */
export interface ForkOptions {
  /** Up to where the parent's history is shared. Default: its head. */
  readonly at?: ThreadPoint;
  /** A name for this fork: forking again under it gives the same. */
  readonly id?: string;
  /** Anything to keep beside it. */
  readonly meta?: unknown;
}

/** Events fetched at a time. */
const PAGE = 256;

/**
 * A named stream of events, and the state that they add up to.
 *
 * @example
 * ```ts
 * import { openLog } from "threadlog";
 *
 * await using log = await openLog(":memory:");
 * const thread = log.thread<{ plan: { step: number } }>("support-42");
 * await thread.put("plan", { step: 1 });
 * await thread.update("plan", (draft) => { draft.step = 2; });
 * console.log(await thread.get("plan")); // { step: 2 }
 * console.log(await thread.at(1).get("plan")); // { step: 1 }
 * ```
 */
export class Thread<State = AnyState> extends ThreadView<State> {
  /** Its id: a string where it has one label, else the list of them. */
  readonly id: ThreadId;
  readonly #core: Core;
  readonly #path: ThreadPath;

  /** Threads are made by `log.thread`. */
  constructor(core: Core, path: ThreadPath) {
    super(core, path, () => core.live());
    this.#core = core;
    this.#path = path;
    this.id = threadIdOf(path);
  }

  /** Sets a key. The value is encoded before the call returns: later changes to it change nothing. */
  async put<Key extends KeyOf<State>>(
    key: Key,
    value: State[Key] | Immutable<State[Key]>,
    options: WriteOptions = {},
  ): Promise<SetEvent> {
    const given = takeOptions(options, WRITE_OPTIONS);
    return await this.#write<SetEvent>(setInput(this.#core, this.#path, key, value, given), given);
  }

  /**
   * Changes a key's value in part, with a recipe that changes a draft or returns a new value. It runs on the value as
   * it is when its turn comes, possibly more than once, and is appended as a patch.
   */
  async update<Key extends KeyOf<State>>(
    key: Key,
    recipe: (draft: State[Key]) => State[Key] | Immutable<State[Key]> | void | undefined,
    options: UpdateOptions<State[Key] | Immutable<State[Key]>> = {},
  ): Promise<PatchEvent | SetEvent> {
    const given = takeOptions(options, UPDATE_OPTIONS);
    const step = pendingUpdate(this.#core, this.#path, key, recipe as Recipe<unknown>, given);
    const expects = parseExpect(this.#path, given.expect);
    const [event] = await this.#core.submit({
      request: () => planSteps(this.#core, [step], expects),
      paths: [this.#path],
      bytes: 256,
    });
    return event as PatchEvent | SetEvent;
  }

  /** Deletes a key. Deleting what is not there is recorded, too. */
  async delete(key: KeyOf<State>, options: WriteOptions = {}): Promise<DeleteEvent> {
    const given = takeOptions(options, WRITE_OPTIONS);
    return await this.#write<DeleteEvent>(deleteInput(this.#core, this.#path, key, given), given);
  }

  /** Appends an event of the app's own type. */
  async append<Type extends string, Value = undefined>(
    type: Type,
    value?: Value,
    options: WriteOptions = {},
  ): Promise<AppEvent<Type, Immutable<Value>>> {
    const given = takeOptions(options, WRITE_OPTIONS);
    const input = appInput(this.#core, this.#path, type, value, given);
    return await this.#write<AppEvent<Type, Immutable<Value>>>(input, given);
  }

  /** The thread as it was at a version, a position, a time or a snapshot. A bare number is a version. */
  at(point: ThreadPoint): ThreadView<State> {
    const parsed = parseThreadPoint(point, "point");
    return this.#view(parsed);
  }

  #view(point: Point): ThreadView<State> {
    return new ThreadView<State>(this.#core, this.#path, () => this.#core.moment(this.#path, point));
  }

  /** The net changes from one point to another, in code point order of the keys. */
  diff(from: ThreadPoint, to: ThreadPoint): AsyncIterableIterator<Change<KeyOf<State>>> {
    const points = [parseThreadPoint(from, "from"), parseThreadPoint(to, "to")] as const;
    return this.#diff(...points) as AsyncIterableIterator<Change<KeyOf<State>>>;
  }

  async *#diff(from: Point, to: Point): AsyncIterableIterator<Change> {
    const core = this.#core;
    yield* diffThread(core, this.#path, await versionAt(core, this.#path, from), await versionAt(core, this.#path, to));
  }

  /** The thread's events in order of their versions, inherited ones included. */
  replay(options: ReplayOptions = {}): AsyncIterableIterator<Event> {
    const given = takeOptions(options, ["from", "to", "limit", "reverse"]);
    const from = given.from === undefined ? undefined : parseThreadPoint(given.from, "from");
    const to = given.to === undefined ? undefined : parseThreadPoint(given.to, "to");
    return this.#replay(from, to, parseLimit(given.limit), parseFlag(given.reverse, "reverse"));
  }

  async *#replay(
    start: Point | undefined,
    end: Point | undefined,
    limit: number,
    reverse: boolean,
  ): AsyncIterableIterator<Event> {
    const core = this.#core;
    let from = start === undefined ? 1 : Math.max(1, await versionAt(core, this.#path, start));
    let to = end === undefined ? (await this.head()).version : await versionAt(core, this.#path, end);
    for (let left = limit; left > 0 && from <= to;) {
      const size = Math.min(left, PAGE);
      const page = await core.backend.history(this.#path, { from, to, limit: size, reverse });
      for (const stored of page) yield core.records.event(stored);
      if (page.length < size) return;
      left -= page.length;
      const last = page.at(-1)!.version;
      if (reverse) to = last - 1;
      else from = last + 1;
    }
  }

  /** Folds the thread's events into a state, up to a point. */
  async fold<Folded>(
    initial: Folded,
    evolve: (state: Folded, event: Event) => Folded,
    options: Pick<ReplayOptions, "to"> = {},
  ): Promise<Folded> {
    if (typeof evolve !== "function") {
      throw invalid("A fold needs a function", "evolve", "As in (state, event) => state.");
    }
    const given = takeOptions(options, ["to"]);
    let state = initial;
    for await (const event of this.replay(given)) state = evolve(state, event);
    return state;
  }

  /** Makes a new thread that shares this one's history up to a point. It copies nothing, however long that is. */
  async fork(id: ThreadId, options: ForkOptions = {}): Promise<Thread<State>> {
    const path = parseThreadId(id, "fork id");
    const { at, id: name, meta } = takeOptions(options, ["at", "id", "meta"]);
    const point = at === undefined ? undefined : parseThreadPoint(at, "options.at");
    const eventId = parseEventId(name);
    await this.#refuseMissing();
    const version = point !== undefined
      ? await originAt(this.#core, this.#path, point)
      : await this.#forkedAt(path, eventId) ?? (await this.head()).version;
    const input = forkInput(this.#core, path, { path: this.#path, version }, { id: eventId, meta });
    await this.#core.commit([input], [{ path, version: 0 }]);
    return new Thread<State>(this.#core, path);
  }

  /** Where an earlier fork under the same id began: the parent may have grown since. */
  async #forkedAt(path: ThreadPath, id: string | undefined): Promise<Version | undefined> {
    const found = id === undefined ? undefined : await this.#core.backend.byId(path, id);
    return found?.type === "fork" ? (this.#core.records.event(found) as ForkEvent).value.version : undefined;
  }

  /** Brings the state back to what it was at a point, as a new event: nothing is rewritten. */
  async restore(point: ThreadPoint, options: WriteOptions = {}): Promise<RestoreEvent> {
    const parsed = parseThreadPoint(point, "point");
    const { expect, id: name, meta } = takeOptions(options, WRITE_OPTIONS);
    const expects = parseExpect(this.#path, expect);
    const id = parseEventId(name);
    await this.#refuseMissing();
    const version = await originAt(this.#core, this.#path, parsed);
    const input = this.#core.records.input({
      path: this.#path,
      type: "restore",
      id,
      meta,
      value: { version },
      origin: { path: this.#path, version },
    });
    const [event] = await this.#core.append([input], expects);
    return event as RestoreEvent;
  }

  /**
   * The event that last changed a key's value, or the part of it that an RFC 6901 pointer names; undefined if nothing
   * ever did. Restores are looked through, to the event that wrote what they brought back.
   */
  async blame(key: KeyOf<State>, pointer = ""): Promise<Event | undefined> {
    const core = this.#core;
    const name = parseKey(key);
    return await core.readAt(() => core.live(), async ({ root }) => {
      const { version } = await core.keyspace.head(root, this.#path);
      const stored = await blame(core, this.#path, name, pointer, version);
      return stored && core.records.event(stored);
    });
  }

  /**
   * The first version for which a predicate holds, found in O(log n) reads, given that it holds for every version after
   * that; undefined if it does not hold for the last.
   */
  async bisect(
    predicate: (view: ThreadView<State>, version: Version) => boolean | Promise<boolean>,
    options: Pick<ReplayOptions, "from" | "to"> = {},
  ): Promise<Version | undefined> {
    if (typeof predicate !== "function") {
      throw invalid("The predicate must be a function", "bisect", "As in async (view) => (await view.get(k)) > 3.");
    }
    const { from, to } = takeOptions(options, ["from", "to"]);
    const core = this.#core;
    const low = from === undefined ? 1 : Math.max(1, await versionAt(core, this.#path, parseThreadPoint(from, "from")));
    const high = to === undefined
      ? (await this.head()).version
      : await versionAt(core, this.#path, parseThreadPoint(to, "to"));
    return await bisect(low, high, async (version) => {
      const result: unknown = predicate(this.#view({ kind: "version", version }), version);
      const holds = isThenable(result, "predicate") ? await result : result;
      if (typeof holds === "boolean") return holds;
      throw invalid("The predicate must return a boolean", `version ${version}`, "Compare explicitly.");
    });
  }

  /**
   * Erases the thread: its payloads and keys leave the file, and one tombstone takes their place. What forks share with
   * it stays theirs. Resolves with the tombstone; undefined if there was nothing to erase.
   */
  async erase(options: EraseOptions = {}): Promise<EraseEvent | undefined> {
    const { meta, scrub } = parseErase(options);
    const [event] = await eraseThreads(this.#core, [this.#path], meta);
    if (scrub) await scrubFile(this.#core, event === undefined);
    return event;
  }

  /** A fork of, or a return to, nothing is refused for what it is rather than for its version. */
  async #refuseMissing(): Promise<void> {
    if ((await this.head()).version > 0) return;
    throw new ThreadlogError("not_found", `Thread ${showPath(this.#path)} does not exist`, {
      place: `thread ${showPath(this.#path)}`,
      remedy: "Check its id, or append to it first.",
    });
  }

  async #write<Written extends Event>(input: EventInput, options: WriteOptions): Promise<Written> {
    const [event] = await this.#core.append([input], parseExpect(this.#path, options.expect));
    return event as Written;
  }
}

/** Checks how to erase. */
export function parseErase(options: EraseOptions): { readonly meta: unknown; readonly scrub: boolean } {
  const { meta, scrub } = takeOptions(options, ["meta", "scrub"]);
  return { meta, scrub: parseFlag(scrub, "scrub", true) };
}

/** Makes sure that nothing of what was erased is left in the file; if only due, not where an earlier call has done so. */
export async function scrubFile(core: Core, onlyIfDue = false): Promise<void> {
  await core.writer.exclusively(async () => {
    while (await core.backend.purge());
    await core.backend.scrub(onlyIfDue);
  });
}

/** Erases threads together. Those that do not exist, or hold nothing but a tombstone, are left as they are. */
export async function eraseThreads(core: Core, paths: readonly ThreadPath[], meta: unknown): Promise<EraseEvent[]> {
  const events = await core.submit({
    paths,
    bytes: 256 * paths.length,
    request: async () => {
      const events: EventInput[] = [];
      const expects: Expectation[] = [];
      for (const path of paths) {
        const thread = await core.backend.thread(path, { position: END });
        const { version = 0, erased = 0 } = thread ?? {};
        if (version === 0 || (erased > 0 && version === erased + 1)) continue;
        events.push(core.records.input({ path, type: "erase", meta, value: { through: version } }));
        expects.push({ path, version });
      }
      return { events, expects };
    },
  });
  return events as EraseEvent[];
}
