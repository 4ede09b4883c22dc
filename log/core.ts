/**
 * What the parts of an open log share: the writer, the projections and the backend, and the order between them.
 *
 * @module
 */

import { clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from "node:timers";
import { Fold, type ProjectionDefinition, type ProjectionStore } from "../projections/projection.ts";
import { Keyspace, type KeyspaceRoot, type MaybePromise } from "../projections/keyspace.ts";
import type { Backend, EventInput, Expectation, ReadPoint, StoredEvent } from "./backend.ts";
import { closedError, ThreadlogError } from "./errors.ts";
import type { Event } from "./event.ts";
import { showPath, type ThreadPath } from "./ids.ts";
import type { Point, Position } from "./position.ts";
import type { Records } from "./records.ts";
import { settle } from "./retries.ts";
import type { Source } from "./subscription.ts";
import { EVERYTHING, type Filter, Waiters } from "./waiters.ts";
import { type Intent, Writer, type WriterLimits } from "./writer.ts";

/** How the core is set up. */
export interface CoreOptions extends WriterLimits {
  readonly cacheBytes: number;
}

/** How often to look for other processes' appends while somebody waits for them, in milliseconds. */
const POLL_MS = 15;
/** How long others have to remove what they have erased, in milliseconds. */
const PURGE_MS = 5000;
/** Events fetched at a time when catching up. */
const PAGE = 512;
/** When others have written more than this, the keyspace is forgotten rather than brought up to date. */
const MAX_CATCH_UP = 10_000;

/** A state that is in memory, and stands for now. */
export interface LiveMoment {
  readonly root: KeyspaceRoot;
  readonly isLive: true;
}

/** A moment to read at: a state that is in memory, or a point of the log. */
export type Moment = LiveMoment | { readonly root: KeyspaceRoot; readonly isLive?: undefined } | {
  readonly at: ReadPoint;
};

/** The shared middle of a log. */
export class Core implements Source {
  readonly backend: Backend;
  readonly records: Records;
  readonly keyspace: Keyspace;
  readonly writer: Writer;
  readonly #settle: Intent["settle"] = (request, found) => settle(this, request, found);
  readonly #folds = new Set<Fold<unknown>>();
  /** Each with what ends, by an error, when its fold does. */
  readonly #trailing = new Map<Fold<unknown>, Promise<never>>();
  #position: Position;
  readonly #waiters = new Waiters();
  /** Who waits for the log to grow: readers, for whom the process stays alive, and folds, for which it does not. */
  #readers = 0;
  #trailers = 0;
  #poll: ReturnType<typeof setInterval> | undefined;
  #purge: ReturnType<typeof setTimeout> | undefined;
  #closed: Promise<void> | undefined;

  constructor(backend: Backend, records: Records, position: Position, options: CoreOptions) {
    this.backend = backend;
    this.records = records;
    this.keyspace = new Keyspace(backend, records, options.cacheBytes, position);
    this.#position = position;
    this.writer = new Writer(backend, {
      apply: (events) => this.#apply(events),
      catchUp: (to) => this.#catchUp(to),
    }, options);
  }

  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Brings the projections up to what others have appended, if they have. Awaiting nothing costs nothing. */
  fresh(): Promise<void> | undefined {
    if (this.#closed !== undefined) return Promise.reject(closedError());
    return this.backend.changed() ? this.writer.refresh() : undefined;
  }

  /** The state now. A promise of it only where others have appended. */
  current(): MaybePromise<KeyspaceRoot> {
    return this.fresh()?.then(() => this.keyspace.root) ?? this.keyspace.root;
  }

  /** The same, as the moment that stands for now. */
  live(): MaybePromise<LiveMoment> {
    const root = this.current();
    return root instanceof Promise ? root.then((root) => ({ root, isLive: true })) : { root, isLive: true };
  }

  /**
   * Reads at a moment; of a live one again, if what it was about to read has been erased since. Where all is in memory,
   * nothing is awaited.
   */
  readAt<T, M extends Moment>(moment: () => MaybePromise<M>, read: (moment: M) => MaybePromise<T>): MaybePromise<T> {
    const at = moment();
    if (at instanceof Promise) return this.#readAt(moment, read, at, undefined);
    const result = read(at);
    return result instanceof Promise ? this.#readAt(moment, read, at, result) : result;
  }

  async #readAt<T, M extends Moment>(
    moment: () => MaybePromise<M>,
    read: (moment: M) => MaybePromise<T>,
    at: MaybePromise<M>,
    reading: Promise<T> | undefined,
  ): Promise<T> {
    for (let when = await at, result: MaybePromise<T> | undefined = reading;;) {
      try {
        return await (result ?? read(when));
      } catch (error) {
        if (!(error instanceof ThreadlogError && error.code === "erased" && "root" in when && when.isLive)) throw error;
        await this.writer.refresh();
        if (this.keyspace.root.position <= when.root.position) throw error;
      }
      when = await moment();
      result = undefined;
    }
  }

  async head(): Promise<Position> {
    return (await this.current()).position;
  }

  async resolve(point: Point): Promise<Position> {
    const head = await this.head();
    if (point.kind === "time") return this.backend.positionAt(point.time, head);
    const { position } = point as { readonly position: Position };
    if (position > head) {
      throw new ThreadlogError("not_found", `The log has no position ${position}`, {
        place: `position ${position}`,
        remedy: `Its head is ${head}.`,
      });
    }
    return position;
  }

  /** Where to read a thread for a point of it. */
  async moment(path: ThreadPath, point: Point): Promise<Moment> {
    if (point.kind !== "version") return { at: { position: await this.resolve(point) } };
    const root = await this.current();
    const head = await this.keyspace.head(root, path);
    if (point.version === head.version) return { root };
    if (point.version > head.version) {
      throw new ThreadlogError("not_found", `Thread ${showPath(path)} has no version ${point.version}`, {
        place: `thread ${showPath(path)}`,
        remedy: `Its head is version ${head.version}.`,
      });
    }
    return { at: { version: point.version } };
  }

  /** Appends events together. */
  async append(events: readonly EventInput[], expects: readonly Expectation[]): Promise<Event[]> {
    return this.#shown(await this.commit(events, expects));
  }

  /** Appends events together, and gives them back as they are stored. */
  commit(events: readonly EventInput[], expects: readonly Expectation[]): Promise<readonly StoredEvent[]> {
    let bytes = 0;
    for (const { value, state, meta } of events) {
      bytes += 256 + (value?.length ?? 0) + (state?.length ?? 0) + (meta?.length ?? 0);
    }
    const paths = events.length === 1 ? [events[0]!.path] : [...new Set(events.map(({ path }) => path))];
    return this.writer.submit({ request: { events, expects }, paths, bytes, settle: this.#settle });
  }

  /** Queues an intent and shows its events. */
  async submit(intent: Omit<Intent, "settle">): Promise<Event[]> {
    return this.#shown(await this.writer.submit({ ...intent, settle: this.#settle }));
  }

  #shown(events: readonly StoredEvent[]): Event[] {
    return events.map((event) => this.records.appended(event));
  }

  /** Folds a projection along with the log. */
  async project<State>(definition: ProjectionDefinition<State>, store: ProjectionStore): Promise<Fold<State>> {
    const fold = new Fold(definition, store);
    await fold.restore(await this.head());
    if (definition.mode === "behind") {
      const trail = this.#trail(fold as Fold<unknown>);
      // A failed read shows to whoever asks for the state.
      trail.catch((error: unknown) => this.#closed === undefined && fold.fail(error));
      this.#trailing.set(fold as Fold<unknown>, trail);
    } else {
      // Between two transactions: no event may come in after it has caught up and before it is one of the folds.
      await this.writer.exclusively(async () => {
        await this.#foldUpTo(fold as Fold<unknown>);
        this.#folds.add(fold as Fold<unknown>);
      });
    }
    return fold;
  }

  /** Brings a fold up to the head. What it has seen of a thread that was erased since, it must not have seen. */
  async #foldUpTo(fold: Fold<unknown>): Promise<void> {
    let trusted = fold.position === 0 ? this.#position : 0;
    while (fold.position < this.#position) {
      const to = this.#position;
      const page = await this.backend.read({ after: fold.position, to, limit: PAGE });
      let erased = false;
      for (const event of page) if (fold.fold(event) && event.position > trusted) erased = true;
      if (erased) {
        fold.reset();
        trusted = this.#position;
      } else if (page.length < PAGE) {
        fold.reached(to);
      }
    }
  }

  /** Folds a projection behind the log until it closes. */
  async #trail(fold: Fold<unknown>): Promise<never> {
    while (this.#closed === undefined) {
      await this.#foldUpTo(fold);
      if (fold.isSaveDue) await this.#save([fold]).catch(() => {});
      await this.#grown(fold.position, EVERYTHING, undefined, "trailer");
    }
    throw closedError();
  }

  /** Resolves when a trailing fold may have got further. */
  async folded(fold: Fold<unknown>): Promise<void> {
    const trail = this.#trailing.get(fold);
    if (trail === undefined) await this.writer.exclusively(() => this.#foldUpTo(fold));
    else await Promise.race([trail, new Promise((resolve) => setImmediate(resolve))]);
  }

  async grown(beyond: Position, filter: Filter, signal: AbortSignal | undefined): Promise<Position> {
    return await this.#grown(beyond, filter, signal, "reader");
  }

  async #grown(
    beyond: Position,
    filter: Filter,
    signal: AbortSignal | undefined,
    who: "reader" | "trailer",
  ): Promise<Position> {
    if (this.#closed !== undefined) throw closedError();
    if (signal?.aborted || this.#position > beyond) return beyond;
    const woken = Promise.withResolvers<Position>();
    const leave = () => woken.resolve(beyond);
    const forget = this.#waiters.add(
      filter,
      beyond,
      (first) => woken.resolve(first === undefined ? beyond : first - 1),
    );
    signal?.addEventListener("abort", leave, { once: true });
    this.#wait(who, 1);
    try {
      return await woken.promise;
    } finally {
      forget();
      this.#wait(who, -1);
      signal?.removeEventListener("abort", leave);
    }
  }

  #wait(who: "reader" | "trailer", change: number): void {
    if (who === "reader") this.#readers += change;
    else this.#trailers += change;
    if (this.backend.kind === "memory") return;
    if (this.#readers + this.#trailers > 0) {
      // Failures show to whoever reads next.
      this.#poll ??= setInterval(() => void this.fresh()?.catch(() => {}), POLL_MS);
      if (this.#readers > 0) this.#poll.ref();
      else this.#poll.unref();
    } else {
      clearInterval(this.#poll);
      this.#poll = undefined;
    }
  }

  /** Settles everything, saves the projections, and closes the backend. */
  close(): Promise<void> {
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    await this.writer.close();
    clearInterval(this.#poll);
    clearTimeout(this.#purge);
    this.#waiters.wakeAll();
    // A state is only a cache: what keeps one from being saved is no reason not to close.
    for (const fold of [...this.#folds, ...this.#trailing.keys()]) await this.#save([fold]).catch(() => {});
    await this.backend.close();
  }

  async #apply(events: readonly StoredEvent[]): Promise<void> {
    const first = events[0]!.position;
    if (first !== this.#position + 1) await this.#catchUp(first - 1);
    await this.#fold(events);
  }

  async #catchUp(to: Position): Promise<void> {
    if (to - this.#position > MAX_CATCH_UP && this.#folds.size === 0) {
      this.#position = to;
      this.keyspace.reset(to);
      this.#waiters.wakeAll();
    }
    while (this.#position < to) {
      const page = await this.backend.read({ after: this.#position, to, limit: PAGE });
      if (page.some(({ type }) => type === "erase")) this.#finishPurgeLater();
      if (page.length > 0) await this.#fold(page);
      if (page.length < PAGE) {
        // What is missing at the end was erased.
        this.#position = to;
        if (this.keyspace.root.position !== to) this.keyspace.reset(to);
      }
    }
  }

  /** Another process has erased something: should it die before it has removed that, this one will. */
  #finishPurgeLater(): void {
    if (this.backend.readOnly || this.#purge !== undefined) return;
    this.#purge = setTimeout(() => {
      this.#purge = undefined;
      this.writer.exclusively(async () => {
        while (await this.backend.purge());
      }).catch(() => {}); // the next to open the file will try again
    }, PURGE_MS);
    this.#purge.unref();
  }

  async #fold(events: readonly StoredEvent[]): Promise<void> {
    const before = this.#position;
    this.keyspace.apply(events);
    this.#position = events.at(-1)!.position;
    for (const fold of this.#folds) {
      // One that has fallen behind must not skip what it lacks.
      let again = fold.position < before;
      if (!again) { for (const event of events) again = fold.fold(event) || again; }
      if (!again) continue;
      if (fold.position >= before) fold.reset();
      await this.#foldUpTo(fold);
    }
    const due = [...this.#folds].filter((fold) => fold.isSaveDue);
    // A state is only a cache: a failure to save it shows to whoever asks for it, not to whoever appends.
    if (due.length > 0) await this.#save(due).catch(() => {});
    this.#waiters.tell(events);
  }

  async #save(folds: readonly Fold<unknown>[]): Promise<void> {
    if (this.backend.readOnly) return;
    for (const fold of folds) await fold.save();
  }
}
