/**
 * A log, as apps use it.
 *
 * @module
 */

import { Fold, type ProjectionDefinition, type ProjectionStore } from "../projections/projection.ts";
import { defineProjection } from "../projections/projection.ts";
import { guarded, takeOptions } from "./arguments.ts";
import type { BackendStats } from "./backend.ts";
import { type Batch, runBatch } from "./batch.ts";
import { type Change, diffLog } from "./changes.ts";
import type { Core } from "./core.ts";
import { invalid, ThreadlogError } from "./errors.ts";
import type { EraseEvent, Event, Immutable } from "./event.ts";
import { parsePrefix, parseThreadId, type ThreadId, type ThreadPath } from "./ids.ts";
import { parsePath } from "./paths.ts";
import { END, type LogPoint, parseLogPoint, type Position } from "./position.ts";
import { read, type ReadOptions, subscribe, type SubscribeOptions } from "./subscription.ts";
import { type EraseOptions, eraseThreads, parseErase, scrubFile, Thread } from "./thread.ts";
import { verify, type VerifyReport } from "./verify.ts";
import { type AnyState, listThreads, LogView, Snapshot, type ThreadInfo, type ThreadsOptions } from "./view.ts";

/** A log in figures. */
export interface LogStats extends BackendStats {
  /** The position of its last event. */
  readonly position: Position;
  /** Bytes of memory that cached values take, about. */
  readonly cacheBytes: number;
  /** Appends that wait for their turn. */
  readonly queued: number;
}

/** A projection that is being kept up to date. */
export interface Projection<State> {
  /** Its name. */
  readonly name: string;
  /** The state now. An inline projection has folded everything acknowledged; one behind, what it got to. */
  state(): Promise<Immutable<State>>;
  /** The last position that it has folded. */
  position(): Promise<Position>;
  /** Resolves when it has folded everything that was acknowledged before the call. */
  caughtUp(): Promise<void>;
  /** The state at an earlier point, folded from the beginning. */
  at(point: LogPoint): Promise<Immutable<State>>;
}

/** Threads erased in one transaction. */
const ERASE_BATCH = 100;

/** What is behind a log: for adapters, whose every step goes through it. */
export let coreOf: (log: Log) => Core;

/**
 * One database of events. Made by `openLog`; safe to use from any number of async functions at once.
 *
 * @example
 * ```ts
 * import { openLog } from "threadlog";
 *
 * await using log = await openLog(":memory:");
 * await log.batch((batch) => {
 *   batch.thread("orders").append("order.placed", { order: 7 });
 *   batch.thread(["users", "42"]).put("lastOrder", 7);
 * });
 * for await (const { thread, version } of log.threads()) console.log(thread, version);
 * ```
 */
export class Log implements AsyncDisposable {
  readonly #core: Core;

  static {
    coreOf = (log) => log.#core;
  }

  /** Logs are made by `openLog`. */
  constructor(core: Core) {
    this.#core = core;
  }

  /** A thread, whether it exists yet or not. Name the types of its keys to have them checked. */
  thread<State = AnyState>(id: ThreadId): Thread<State> {
    return new Thread<State>(this.#core, parseThreadId(id));
  }

  /** The position of the last event that was acknowledged; 0 for an empty log. */
  async head(): Promise<Position> {
    return await this.#core.head();
  }

  /**
   * Writes to several threads, together or not at all. The function fills the batch without awaiting anything; the
   * events are resolved in its order.
   */
  async batch(fill: (batch: Batch) => void): Promise<Event[]> {
    return await runBatch(this.#core, fill);
  }

  /** The state as it is now, kept: O(1), however much there is. */
  snapshot(): Snapshot {
    return new Snapshot(this.#core, this.#core.keyspace.root);
  }

  /** The log as it was at a position, a time, or a snapshot. A bare number is a position. */
  at(point: LogPoint): LogView {
    return guarded("point", () => point instanceof Snapshot)
      ? point as Snapshot
      : new LogView(this.#core, parseLogPoint(point, "point"));
  }

  /** The net changes from one point to another, in the order of threads and keys. Costs the events between them. */
  diff(
    from: LogPoint,
    to: LogPoint,
    options: { readonly prefix?: ThreadId | readonly [] } = {},
  ): AsyncIterableIterator<Change> {
    const points = [parseLogPoint(from, "from"), parseLogPoint(to, "to")] as const;
    return this.#diff(parsePrefix(takeOptions(options, ["prefix"]).prefix), ...points);
  }

  async *#diff(
    prefix: ThreadPath,
    from: ReturnType<typeof parseLogPoint>,
    to: ReturnType<typeof parseLogPoint>,
  ): AsyncIterableIterator<Change> {
    yield* diffLog(this.#core, prefix, await this.#core.resolve(from), await this.#core.resolve(to));
  }

  /** The events, in order, up to the head as it is when the first is asked for. */
  read(options: ReadOptions = {}): AsyncIterableIterator<Event> {
    return read(this.#core, options);
  }

  /**
   * The events, in order, and then each new one as it is acknowledged, by this process or another. Each comes once. A
   * slow reader holds nobody up.
   */
  subscribe(options: SubscribeOptions = {}): AsyncIterableIterator<Event> {
    return subscribe(this.#core, options);
  }

  /** The threads, in the order of their ids: label by label, by code point. */
  threads(options: ThreadsOptions = {}): AsyncIterableIterator<ThreadInfo> {
    return listThreads(this.#core, options, () => this.#core.head());
  }

  /** Keeps a projection up to date from now on, starting from its saved state. */
  async project<State>(definition: ProjectionDefinition<State>): Promise<Projection<State>> {
    const core = this.#core;
    defineProjection(definition);
    const store = projectionStore(core);
    const fold = await core.project(definition, store);
    const isBehind = definition.mode === "behind";
    const current = async () => {
      const fresh = core.fresh();
      if (fresh !== undefined && !isBehind) await fresh;
      return fold.current;
    };
    return {
      name: definition.name,
      state: async () => (await current()).state as Immutable<State>,
      position: async () => (await current()).position,
      caughtUp: async () => {
        const head = await core.head();
        while (fold.position < head) await core.folded(fold as Fold<unknown>);
      },
      at: async (point) => {
        const parsed = parseLogPoint(point, "point");
        return await foldTo(core, definition, await core.resolve(parsed)) as Immutable<State>;
      },
    };
  }

  /** Erases every thread below a path (whole labels), itself included. Resolves with their tombstones. */
  async erase(prefix: ThreadId | readonly [], options: EraseOptions = {}): Promise<EraseEvent[]> {
    if (prefix === undefined) throw invalid("Erasing needs a prefix", "prefix", "Pass [] to erase every thread.");
    parsePrefix(prefix);
    const { meta, scrub } = parseErase(options);
    const tombstones: EraseEvent[] = [];
    let paths: ThreadPath[] = [];
    const flush = async () => {
      tombstones.push(...await eraseThreads(this.#core, paths, meta));
      paths = [];
    };
    // Others' threads of this very moment, too: what is to be erased must not be missed.
    for await (const { thread } of listThreads(this.#core, { prefix }, () => Promise.resolve(END))) {
      paths.push(parseThreadId(thread));
      if (paths.length === ERASE_BATCH) await flush();
    }
    if (paths.length > 0) await flush();
    if (scrub) await scrubFile(this.#core, tombstones.length === 0);
    return tombstones;
  }

  /**
   * Writes the file anew, without gaps and without the copies that the engine may have left of what was erased. Appends
   * wait meanwhile; it takes as long as writing the file.
   */
  async compact(): Promise<void> {
    await scrubFile(this.#core);
  }

  /**
   * Holds every event against the hash chain of its thread, and in a file what is kept beside the events against them;
   * and lets the engine check its file.
   */
  async verify(): Promise<VerifyReport> {
    const { backend, records } = this.#core;
    return await verify(backend, await this.#core.head(), (event) => records.event(event).value);
  }

  /**
   * Copies the log to a new file, while writes go on. The copy holds everything that was acknowledged before the call,
   * and appears under its name only when it is complete, checked and durable.
   */
  async backup(target: string | URL): Promise<void> {
    await this.#core.backend.backup(parsePath(target, "target"));
  }

  /** The log in figures. */
  async stats(): Promise<LogStats> {
    const position = await this.#core.head();
    const stats = await this.#core.backend.stats();
    return { ...stats, position, cacheBytes: this.#core.keyspace.size, queued: this.#core.writer.queued };
  }

  /** Resolves when everything that was appended before the call has been settled. */
  async flush(): Promise<void> {
    await this.#core.writer.flush();
  }

  /**
   * Resolves when everything that others had made durable before the call can be seen here. Reads look by themselves
   * once in each turn of the event loop; this is for the turn that can't wait.
   */
  async refresh(): Promise<void> {
    await this.#core.writer.refresh();
  }

  /** Settles what is queued, saves the projections, and closes the file. Closing again does nothing. */
  async close(): Promise<void> {
    await this.#core.close();
  }

  /** The same, at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** The state that a projection had at a position. */
async function foldTo<State>(core: Core, definition: ProjectionDefinition<State>, to: Position): Promise<State> {
  const { name, evolve, initial, prefix, types } = definition;
  const step = (what: "initial" | "evolve", place: string, fold: () => State): State => {
    try {
      return fold();
    } catch (cause) {
      throw new ThreadlogError("schema", `The projection ${JSON.stringify(name)} threw in \`${what}\``, {
        place: `projection ${JSON.stringify(name)}, ${place}`,
        remedy: `Correct \`${what}\` and raise the projection's version; the log itself is fine.`,
        cause,
      });
    }
  };
  let state = step("initial", "its beginning", () => initial());
  for await (const event of read(core, { to, ...(prefix && { prefix }), ...(types && { types }) })) {
    if (event.type === "erase") continue;
    const before = state;
    state = step("evolve", `position ${event.position}`, () => evolve(before, event));
  }
  return state;
}

function projectionStore(core: Core): ProjectionStore {
  return {
    load: (name) => core.backend.loadState(name),
    save: (name, saved) => core.backend.saveState(name, saved),
    encode: (value) => core.records.encodeState(value),
    decode: (bytes) => core.records.decodeState(bytes),
    event: (stored) => core.records.event(stored),
  };
}
